//! Every adapter against its provider's model, over real HTTP.

mod openai_videos;
