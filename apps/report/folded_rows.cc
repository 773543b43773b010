#include "apps/report/folded_rows.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace soapstone::apps {
namespace {

constexpr size_t kStretchMax = 64;
constexpr char kTimes[] = " \xc3\x97 ";  // the sign of multiplication

bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }

// A name cut where numbers begin and end: "fc12.a" is "fc", "12", ".a"; numbers at odd places.
std::vector<std::string> PiecesOf(const std::string& name) {
  std::vector<std::string> pieces(1);
  for (const char c : name) {
    if (IsDigit(c) != (pieces.size() % 2 == 0)) pieces.emplace_back();
    pieces.back() += c;
  }
  return pieces;
}

// Equal numbers for rows that are alike.
std::vector<size_t> KeysOf(absl::Span<const TableRow> rows) {
  std::map<std::pair<std::string, std::string>, size_t> known;
  std::vector<size_t> keys;
  for (const TableRow& row : rows) {
    std::vector<std::string> pieces = PiecesOf(row.name);
    std::string name;
    for (size_t i = 0; i < pieces.size(); ++i) {
      absl::StrAppend(&name, i % 2 == 1 ? "#" : pieces[i]);
    }
    keys.push_back(known.try_emplace({std::move(name), row.rest}, known.size()).first->second);
  }
  return keys;
}

struct Stretch {
  size_t rows = 1, times = 1;
};

// What is folded where `keys` begins.
Stretch BestStretch(absl::Span<const size_t> keys) {
  Stretch best;
  for (size_t rows = 1; rows <= kStretchMax && 2 * rows <= keys.size(); ++rows) {
    size_t alike = 0;  // keys that come again `rows` further on
    while (alike + rows < keys.size() && keys[alike] == keys[alike + rows]) ++alike;
    const size_t times = alike / rows + 1;
    if (times > 1 && (best.times == 1 || rows * times > best.rows * best.times)) {
      best = {rows, times};
    }
  }
  return best;
}

// The name of `times` rows, each `apart` from the one before: with the range of the one number that
// counts them, else the first's.
std::string FoldedName(absl::Span<const TableRow> rows, size_t apart, size_t times) {
  std::vector<std::string> pieces = PiecesOf(rows[0].name);
  size_t counter = 0;  // of the pieces
  for (size_t t = 1; t < times; ++t) {
    const std::vector<std::string> other = PiecesOf(rows[t * apart].name);
    for (size_t i = 1; i < pieces.size(); i += 2) {
      if (other[i] == pieces[i]) continue;
      uint64_t first = 0;
      uint64_t here = 0;
      const bool counts = absl::SimpleAtoi(pieces[i], &first) &&
                          absl::SimpleAtoi(other[i], &here) && here == first + t;
      if (!counts || (counter != 0 && counter != i)) return rows[0].name;
      counter = i;
    }
  }
  if (counter == 0) return rows[0].name;
  absl::StrAppend(&pieces[counter], "-", PiecesOf(rows[(times - 1) * apart].name)[counter]);
  std::string name;
  for (const std::string& piece : pieces) name += piece;
  return name;
}

}  // namespace

std::vector<TableRow> FoldRows(absl::Span<const TableRow> rows) {
  const std::vector<size_t> keys = KeysOf(rows);
  std::vector<TableRow> folded;
  for (size_t i = 0; i < rows.size();) {
    const Stretch stretch = BestStretch(absl::MakeConstSpan(keys).subspan(i));
    for (size_t k = 0; k < stretch.rows; ++k) {
      TableRow row = rows[i + k];
      if (stretch.times > 1) {
        row.name = absl::StrCat(FoldedName(rows.subspan(i + k), stretch.rows, stretch.times),
                                kTimes, stretch.times);
      }
      folded.push_back(std::move(row));
    }
    i += stretch.rows * stretch.times;
  }
  return folded;
}

size_t WidthOf(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;  // what continues a character
  }));
}

std::string PaddedTo(size_t width, const std::string& text) {
  const size_t has = WidthOf(text);
  return has >= width ? text : absl::StrCat(text, std::string(width - has, ' '));
}

std::string TextOfRows(absl::Span<const TableRow> rows, size_t width) {
  std::string text;
  for (const TableRow& row : rows) {
    absl::StrAppend(&text, PaddedTo(width, row.name), " ", row.rest, "\n");
  }
  return text;
}

}  // namespace soapstone::apps
