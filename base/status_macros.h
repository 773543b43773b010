// SOAP_RETURN_IF_ERROR and SOAP_ASSIGN_OR_RETURN: pass a Status up. Abseil 20220623 has none.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// `lhs` may declare a variable, and pasted tokens cannot be parenthesised.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define SOAP_RETURN_IF_ERROR(expr)               \
  do {                                           \
    absl::Status soap_status_ = (expr);          \
    if (!soap_status_.ok()) return soap_status_; \
  } while (false)

#define SOAP_CONCAT_INNER(a, b) a##b
#define SOAP_CONCAT(a, b) SOAP_CONCAT_INNER(a, b)
#define SOAP_ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                               \
  if (!tmp.ok()) return std::move(tmp).status();   \
  lhs = *std::move(tmp)
#define SOAP_ASSIGN_OR_RETURN(lhs, expr) \
  SOAP_ASSIGN_OR_RETURN_IMPL(SOAP_CONCAT(soap_or_, __LINE__), lhs, expr)
// NOLINTEND(bugprone-macro-parentheses)
