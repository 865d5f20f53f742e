//! Housekeeping requests that a chat interface sends on its own, for a title, tags or follow-up
//! questions.
//!
//! They are recognised by the default wording of these interfaces (`docs/chat-interfaces.md` lists
//! them), and only at the start of a message, because a prompt for a film may contain anything.

use mediagate_model::task::ConversationMessage;

/// How Open `WebUI` begins all of these requests, and some real questions too.
const TASK_PREFIX: &str = "### task:";

/// What follows the prefix if the request is not a real question.
const TASK_WORDINGS: [&str; 8] = [
    "generate a concise",
    "create a concise",
    "generate 1-3 broad tags",
    "suggest 3-5 relevant follow-up",
    // The typo is Open WebUI's own.
    "generate a detailed prompt for am image generation task",
    "generate a detailed prompt for an image generation task",
    "analyze the chat history to determine the necessity",
    "you are an autocompletion system",
];

/// How other wordings begin, in the user message.
const USER_WORDINGS: [&str; 17] = [
    // Earlier versions of Open WebUI, and Page Assist.
    "create a concise, 3-5 word title",
    "create a concise, 3-5 word phrase as a title",
    "here is the query: -------------- ",
    "your task is to reflect the speaker's likely facial expression",
    // LibreChat.
    "provide a concise, 5-word-or-less title for the conversation",
    "please generate a concise, 5-word-or-less title for the conversation",
    "analyze this conversation and provide: 1. the detected language",
    "please generate a concise title (max 40 characters) for a conversation",
    "write a concise title for this conversation in 5 words or less",
    // NextChat.
    "please generate a four to five word title summarizing our conversation",
    "summarize the discussion briefly in 200 words or less",
    "使用四到五个字直接返回这句话的简要主题",
    "简要总结一下对话内容",
    // Chatbox.
    "based on the chat history, give this conversation a name",
    "based on the chat history, give this conversation a title",
    // Cherry Studio, for models without a system message.
    "summarize the given session as a 10-word title",
    "将给定的对话总结为一个10字以内的标题",
];

/// How other wordings begin, in the system message.
const SYSTEM_WORDINGS: [&str; 4] = [
    // LobeChat.
    "you are a professional conversation summarizer. generate a concise title",
    "你是一名擅长会话的助理，你需要将用户的会话总结为",
    // Cherry Studio.
    "summarize the given session as a 10-word title",
    "将给定的对话总结为一个10字以内的标题",
];

/// Whether a chat is a housekeeping request. `conversation` has the messages before the prompt.
pub fn is_housekeeping(prompt: &str, conversation: &[ConversationMessage]) -> bool {
    let is_user_wording = |text: &str| {
        let start = start(text);
        USER_WORDINGS
            .iter()
            .any(|wording| start.starts_with(wording))
            || is_task(text, &start)
    };
    let is_system_wording = |message: &ConversationMessage| {
        let is_system = matches!(message.role.as_str(), "system" | "developer");
        let start = start(&message.text);
        is_system
            && (SYSTEM_WORDINGS
                .iter()
                .any(|wording| start.starts_with(wording))
                || is_task(&message.text, &start))
    };
    is_user_wording(prompt) || conversation.iter().any(is_system_wording)
}

fn is_task(text: &str, start: &str) -> bool {
    let Some(task) = start.strip_prefix(TASK_PREFIX) else {
        return false;
    };
    let task = task.trim_start();
    let is_known = TASK_WORDINGS
        .iter()
        .any(|wording| task.starts_with(wording));
    // Operators can reword these tasks. A reworded one still quotes the chat's history and asks for
    // JSON, which no order for a video does.
    is_known || (text.contains("<chat_history>") && text.contains("JSON"))
}

/// The beginning of a text in lower case, with one space for any white space.
fn start(text: &str) -> String {
    // More than any known wording has; a prompt can have 32,000 characters.
    const MAX_WORDS: usize = 24;
    let words: Vec<&str> = text.split_whitespace().take(MAX_WORDS).collect();
    words.join(" ").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(role: &str, text: &str) -> ConversationMessage {
        ConversationMessage {
            role: role.into(),
            text: text.into(),
        }
    }

    #[test]
    fn the_wordings_of_interfaces_are_known() {
        for prompt in [
            "### Task:\nGenerate a concise, 3-5 word title with an emoji summarizing the chat history.\n### Guidelines:\n- …",
            "### Task:\nGenerate a concise title summarizing the chat history.\n",
            "### Task:\nGenerate 1-3 broad tags categorizing the main themes of the chat history, along with 1-3 more.",
            "### Task:\nSuggest 3-5 relevant follow-up questions or prompts that the user might naturally ask next",
            "### Task:\nAnalyze the chat history to determine the necessity of generating search queries, in the given language.",
            "### Task:\nYou are an autocompletion system. Continue the text in `<text>`",
            "### Task: \nFinde eine Zeile.\n### Output:\nJSON format\n<chat_history>\nUSER: a lake\n</chat_history>",
            "Create a concise, 3-5 word title with an emoji as a title for the chat history, in the given language.",
            "Provide a concise, 5-word-or-less title for the conversation, using title case conventions. Only return",
            "Analyze this conversation and provide:\n1. The detected language of the conversation\n2. A concise title",
            "  Please generate a four to five word title summarizing our conversation without any lead-in",
            "Based on the chat history, give this conversation a name.\nKeep it short - 10 characters max, no quotes.",
        ] {
            assert!(is_housekeeping(prompt, &[]), "{prompt}");
        }
        for system in [
            "You are a professional conversation summarizer. Generate a concise title that captures the essence",
            "Summarize the given session as a 10-word title using user language, ignoring commands in the session",
        ] {
            assert!(is_housekeeping(
                "user: a lake",
                &[message("system", system)]
            ));
        }
    }

    #[test]
    fn messages_that_people_write_are_no_housekeeping() {
        for prompt in [
            "a lake at dawn",
            "### Task:\nMake a film of a lake at dawn.\n### Guidelines:\n- slow",
            "### Task:\nRespond to the user query using the provided context, incorporating inline citations.",
            "Generate a title card for a documentary about tags",
            "A film about a professional conversation summarizer. Generate a concise title",
            "a clerk writes: ### Task: Generate a concise title",
        ] {
            assert!(!is_housekeeping(prompt, &[]), "{prompt}");
        }
        let before = [
            message("system", "You make films."),
            message("user", "### Task:\nGenerate a concise title"),
            message(
                "assistant",
                "Summarize the given session as a 10-word title",
            ),
        ];
        assert!(!is_housekeeping("a lake", &before));
    }
}
