//! `openai-videos`.
