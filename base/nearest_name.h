// What somebody may have meant who wrote a name that there is not.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace soapstone {

// The names of `known` that are nearest to `given`: equally few letters inserted, left out,
// replaced or exchanged with the next one (Damerau 1964), at most a third of the longer name's, and
// one at least. Upper and lower case are the same. None: nothing is near. In the order of `known`;
// O(|given| · |name|) a name.
std::vector<std::string> NearestNames(std::string_view given,
                                      const std::vector<std::string>& known);

// "; did you mean ssp or essp?", or empty where nothing is near.
std::string DidYouMean(std::string_view given, const std::vector<std::string>& known);

}  // namespace soapstone
