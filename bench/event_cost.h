// What an event of a timeline costs the thread that writes it: off, for a clock that is not kept,
// and kept; the steady clock's reading, of which a kept one takes two at most, beside it.
#pragma once

#include <cstdint>
#include <string>

namespace soapstone::bench {

// For people: medians of `repeats`, of about `seconds` each. Error: the text says why not.
std::string EventTable(uint32_t repeats, double seconds);

}  // namespace soapstone::bench
