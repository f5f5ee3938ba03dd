// Keys of conversations that a chat template does not use.
#pragma once

#include "corpus/chat_layout.hpp"
#include "corpus/conversation.hpp"

#include <string>
#include <utility>
#include <vector>

namespace sluice::corpus {

/// Finds keys of conversations that their chat template never names.
class TemplateKeys {
 public:
  TemplateKeys() = default;
  explicit TemplateKeys(const ChatTemplate& chat_template)
      : plain_{chat_template.text, {}}, with_tools_{chat_template.tools_text, {}} {}
  /// Keys that the conversation has and its template never names: "tools", or keys of messages
  /// ("messages.weight").
  [[nodiscard]] std::vector<std::string> unread(const Conversation& conversation);

 private:
  struct Words {
    std::string text;  ///< text of the template
    /// Keys that were looked up, and whether the template names them.
    std::vector<std::pair<std::string, bool>> known;
    [[nodiscard]] bool names(const std::string& key);
  };

  Words plain_;
  Words with_tools_;  ///< words of the template for conversations with tools; empty: plain_ serves all
};

}  // namespace sluice::corpus
