// Keys of conversations that a chat template does not look at.
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
  /// "tools", or keys of messages ("messages.weight"), that the conversation has and its template never
  /// names.
  [[nodiscard]] std::vector<std::string> unread(const Conversation& conversation);

 private:
  struct Words {
    std::string text;                                 ///< text of the template
    std::vector<std::pair<std::string, bool>> known;  ///< keys that were looked for
    [[nodiscard]] bool names(const std::string& key);
  };

  Words plain_;
  Words with_tools_;  ///< words of the template of conversations with tools; no text: plain_ serves all
};

}  // namespace sluice::corpus
