// Reads keys of a config.json, with one clear error per fault: file, key, what was found, what was expected.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// Meaning of null as the value of a key that is read.
enum class Nulls : std::uint8_t {
  kAbsent,   ///< null counts as absent
  kRefused,  ///< null is refused, as transformers refuses it for most keys of a model's config
};

/// A JSON object and the name it has in messages ("…/config.json", "…/config.json: rope_parameters").
/// Every key may be given in several spellings; the first that is present counts. A null at one of them counts
/// as absent, unless with(Nulls::kRefused) says otherwise; objects and lists may be null in any case.
class ConfigReader {
 public:
  using Keys = std::initializer_list<const char*>;

  /// Parses a whole document. Error(kBadData) for anything but a JSON object.
  static ConfigReader parse(std::string_view text, std::string name);

  /// The same object, read with another meaning of null, and all objects in it too.
  [[nodiscard]] ConfigReader with(Nulls nulls) const;

  /// Reads an integer within [minimum, maximum]; a missing key gives `otherwise`, or Error(kBadData) if that
  /// is nothing.
  [[nodiscard]] std::int64_t integer(Keys keys, std::optional<std::int64_t> otherwise = {},
                                     std::int64_t minimum = 1,
                                     std::int64_t maximum = std::numeric_limits<std::int32_t>::max()) const;
  /// Reads a finite number.
  [[nodiscard]] double number(Keys keys, std::optional<double> otherwise = {}) const;
  /// Reads a finite number above zero.
  [[nodiscard]] double positive(Keys keys, std::optional<double> otherwise = {}) const;
  [[nodiscard]] bool boolean(Keys keys, bool otherwise) const;
  [[nodiscard]] std::string text(Keys keys, std::optional<std::string> otherwise = {}) const;
  /// Reads a list of two numbers, the least and the largest of something, where infinity may stand as Python writes
  /// it, or as transformers does: {"__float__": "Infinity"}; nothing if the key is missing. Error(kBadData) for null.
  [[nodiscard]] std::optional<std::pair<double, double>> limits(const char* key) const;
  [[nodiscard]] std::vector<std::int64_t> integers(Keys keys) const;
  /// Reads a list of numbers; a null in it counts as `null`, or is refused if that is nothing.
  [[nodiscard]] std::vector<double> numbers(Keys keys, std::optional<double> null = {}) const;
  [[nodiscard]] std::vector<std::string> texts(Keys keys) const;
  /// The object at a key; nothing if the key is missing.
  [[nodiscard]] std::optional<ConfigReader> object(Keys keys) const;
  /// Readers of all members that are JSON objects.
  [[nodiscard]] std::vector<ConfigReader> objects() const;
  /// Readers of the objects in the list at a key; none if the key is missing.
  [[nodiscard]] std::vector<ConfigReader> object_list(const char* key) const;
  /// Keys of the object, null values included.
  [[nodiscard]] std::vector<std::string> keys() const;
  [[nodiscard]] bool holds_text(const char* key) const;
  [[nodiscard]] bool holds_list(const char* key) const;
  /// Whether the key is present with a value other than null.
  [[nodiscard]] bool has(const char* key) const;
  /// Whether the key is present, if only with value null.
  [[nodiscard]] bool contains(const char* key) const { return has(key) || is_null(key); }
  /// Whether the key is present with value null, for settings where that differs from a missing key.
  [[nodiscard]] bool is_null(const char* key) const;
  [[nodiscard]] bool is_empty() const;
  [[nodiscard]] bool holds_objects() const;
  /// Keys of the object that nobody has asked for in any object of the document.
  [[nodiscard]] std::vector<std::string> unasked_keys() const;

  /// Throws Error(kBadData): "<name>: <key>: found <value>, expected <expected>".
  [[noreturn]] void refuse(const char* key, std::string_view expected) const;
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  using AskedKeys = std::shared_ptr<std::set<std::string, std::less<>>>;
  ConfigReader(std::shared_ptr<const nlohmann::json> document, std::string name, AskedKeys asked,
               Nulls nulls);
  [[nodiscard]] const char* present(Keys keys) const;
  [[nodiscard]] const char* present_value(Keys keys, std::string_view expected) const;
  [[nodiscard]] const char* required(Keys keys, std::string_view expected) const;
  template <class T>
  [[nodiscard]] std::vector<T> list(Keys keys, bool (nlohmann::json::*fits)() const noexcept,
                                    std::string_view expected, std::optional<T> null = {}) const;

  std::shared_ptr<const nlohmann::json> object_;
  std::string name_;
  AskedKeys asked_;  ///< keys asked for in all objects of the document
  Nulls nulls_;
};

}  // namespace sluice
