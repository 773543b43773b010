// SharedList: a vector whose copies share their elements until one of them is changed. For values
// that are sent to thousands of receivers, such as the members of a roster.
#pragma once

#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace soapstone {

template <typename T>
class SharedList {
 public:
  using const_iterator = typename std::vector<T>::const_iterator;

  SharedList() = default;
  SharedList(std::initializer_list<T> items)
      : items_(std::make_shared<std::vector<T>>(std::move(items))) {}

  const_iterator begin() const { return Items().begin(); }
  const_iterator end() const { return Items().end(); }
  size_t size() const { return Items().size(); }
  bool empty() const { return Items().empty(); }
  const T& operator[](size_t i) const { return Items()[i]; }
  const T& front() const { return Items().front(); }
  const T& back() const { return Items().back(); }

  // The elements, to be changed: a copy of its own first, where others share them.
  std::vector<T>& Mutable() {
    if (items_ == nullptr) {
      items_ = std::make_shared<std::vector<T>>();
    } else if (items_.use_count() > 1) {
      items_ = std::make_shared<std::vector<T>>(*items_);
    }
    return *items_;
  }
  void push_back(T item) { Mutable().push_back(std::move(item)); }
  void pop_back() { Mutable().pop_back(); }

  friend bool operator==(const SharedList& a, const SharedList& b) {
    return a.items_ == b.items_ || a.Items() == b.Items();
  }

 private:
  const std::vector<T>& Items() const {
    static const std::vector<T> kEmpty;
    return items_ == nullptr ? kEmpty : *items_;
  }

  std::shared_ptr<std::vector<T>> items_;
};

}  // namespace soapstone
