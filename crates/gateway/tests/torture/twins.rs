//! Equal orders of two accounts at once: they have the same prompt, and each account has a picture
//! of its own. Nobody may get the film of the other's picture.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::dice::Dice;
use crate::sound;
use crate::stage::{Key, PublishedAddress};

/// The prompt of all of them, by which the checks find them.
pub(crate) const PROMPT: &str = "two boats sail at once";
/// The accounts' keys, and the width of each account's picture.
const ACCOUNTS: [(usize, u32); 2] = [(0, 320), (2, 240)];
/// The models, of which each has a provider that does not deduplicate.
const MODELS: [&str; 2] = ["film-plain", "film-mixed"];
/// How long such a caller waits.
const PATIENCE: Duration = Duration::from_secs(5);

/// Orders some films at once. Their callers do not repeat themselves. Returns how many.
pub(crate) async fn order(
    http: reqwest::Client,
    address: PublishedAddress,
    keys: Vec<Key>,
    mut dice: Dice,
) -> u64 {
    let base = address.wait_until_published().await;
    let model = *dice.pick(&MODELS);
    let mut callers = JoinSet::new();
    for number in 0..dice.between(2, 4) {
        let (key, width) = ACCOUNTS[usize::from(number % 2 == 1)];
        let picture = dice.chance(70).then_some(width);
        let request = http
            .post(format!("{base}/v1/chat/completions"))
            .bearer_auth(&keys[key].secret)
            .timeout(PATIENCE)
            .json(&body(model, picture));
        // What becomes of it is in the database.
        callers.spawn(async move { drop(request.send().await) });
    }
    callers.join_all().await.len() as u64
}

fn body(model: &str, picture: Option<u32>) -> Value {
    let mut parts = vec![json!({"type": "text", "text": PROMPT})];
    if let Some(width) = picture {
        let url = sound::data_url("image/png", &sound::png(width, 180));
        parts.push(json!({"type": "image_url", "image_url": {"url": url}}));
    }
    json!({"model": model, "messages": [{"role": "user", "content": parts}]})
}
