//! Moderation services: what they are asked about an order, and what their responses say.

use futures_util::future::join_all;
use moderation::webhook::ModerationQuestion;
use moderation::{PolicyFinding, openai, webhook};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use url::Url;

use super::inputs::{InputContent, OrderInput};
use super::{CheckOutcome, OrderSubject};
use crate::app::App;
use crate::domain::pictures::SpooledPicture;
use crate::moderation_client::ServiceFault;
use mediagate_model::error::Error;
use mediagate_model::ids::{AccountId, AuditId};
use mediagate_model::secret::Secret;

/// What a request needs in memory besides its pictures.
const REQUEST_BYTES: u64 = 1 << 20;
/// Bytes in memory for each byte of a picture: as it is, as base64, and in the body.
const BYTES_PER_PICTURE_BYTE: u64 = 4;
/// Maximum number of bytes of pictures in a request to a webhook. A larger picture is alone.
const MAX_PICTURE_BYTES: u64 = 24 << 20;

/// A service with the moderation API of `OpenAI`.
pub(super) struct OpenAiService<'a> {
    pub(super) url: &'a Url,
    pub(super) api_key: Option<&'a Secret>,
    pub(super) model: &'a str,
}

/// Asks about each input by itself, so that the verdict is about that input.
pub(super) async fn ask_openai(
    app: &App,
    account: AccountId,
    service: &OpenAiService<'_>,
    inputs: &[OrderInput],
) -> Result<CheckOutcome, Error> {
    let mut asks = Vec::with_capacity(inputs.len());
    for input in inputs {
        asks.push(ask_about(app, account, service, input));
    }
    let mut outcome = CheckOutcome::Allow;
    for (input, verdict) in inputs.iter().zip(join_all(asks).await) {
        match verdict? {
            Ok(None) => {}
            Ok(Some(finding)) => {
                let param = input.param.clone();
                return Ok(CheckOutcome::Refuse { finding, param });
            }
            Err(fault) => outcome = CheckOutcome::Error(fault),
        }
    }
    Ok(outcome)
}

async fn ask_about(
    app: &App,
    account: AccountId,
    service: &OpenAiService<'_>,
    input: &OrderInput,
) -> Result<Result<Option<PolicyFinding>, ServiceFault>, Error> {
    let memory = memory_of(std::iter::once(input));
    let _turn = app.limits.moderation.wait(account, memory).await;
    let body = match &input.content {
        InputContent::Text(text) => openai::text_request(service.model, text),
        InputContent::Picture(picture) => {
            openai::picture_request(service.model, &picture.data_url(app).await?)
        }
    };
    let body = app.compute(move || serde_json::to_vec(&body)).await?;
    let body = body.map_err(Error::internal)?;
    let mut headers = json_headers();
    if let Some(key) = service.api_key {
        let value = HeaderValue::try_from(format!("Bearer {}", key.expose()));
        let mut value = value.map_err(Error::internal)?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    let client = &app.net.moderation;
    let response = client.post(service.url, headers, body.into()).await;
    Ok(response.and_then(|body| Ok(openai::read(&body)?)))
}

/// Asks about all inputs at once, or in several requests if the pictures are large.
pub(super) async fn ask_webhook(
    app: &App,
    account: AccountId,
    (url, secret): (&Url, &Secret),
    subject: OrderSubject<'_>,
    inputs: &[OrderInput],
) -> Result<CheckOutcome, Error> {
    let key = webhook::signing_key(secret.expose()).map_err(Error::internal)?;
    for batch in batches(inputs) {
        let memory = memory_of(batch.iter().copied());
        let _turn = app.limits.moderation.wait(account, memory).await;
        let mut images = Vec::new();
        for input in &batch {
            if let Some(picture) = input.picture() {
                images.push(picture.data_url(app).await?);
            }
        }
        let (texts, names) = (texts_of(&batch), Names::of(&batch));
        let question = ModerationQuestion {
            stage: "order",
            task: subject.task.map(|task| task.to_string()),
            kind: subject.kind,
            model: subject.model.to_owned(),
            user: subject.user.map(str::to_owned),
            text: texts.join("\n\n"),
            images,
            inputs: webhook::InputNames {
                text: names.texts.clone(),
                images: names.pictures.clone(),
            },
        };
        let (id, seconds) = (format!("msg_{}", AuditId::new()), app.clock.now().seconds());
        let (message, signing_key) = (id.clone(), key.clone());
        let sign = move || {
            let body = serde_json::to_string(&question)?;
            let signature = webhook::signature(&signing_key, &message, seconds, &body);
            Ok::<_, serde_json::Error>((body, signature))
        };
        let signed = app.compute(sign).await?;
        let (body, signature) = signed.map_err(Error::internal)?;
        let mut headers = json_headers();
        for (name, value) in [
            ("webhook-id", id),
            ("webhook-timestamp", seconds.to_string()),
            ("webhook-signature", signature),
        ] {
            let value = HeaderValue::try_from(value).map_err(Error::internal)?;
            headers.insert(HeaderName::from_static(name), value);
        }
        let response = app.net.moderation.post(url, headers, body.into()).await;
        let verdict = response.and_then(|body| Ok(webhook::read(&body)?));
        match verdict {
            Ok(None) => {}
            Ok(Some(finding)) => {
                let param = names.param(finding.input.as_deref());
                return Ok(CheckOutcome::Refuse { finding, param });
            }
            Err(fault) => return Ok(CheckOutcome::Error(fault)),
        }
    }
    Ok(CheckOutcome::Allow)
}

fn json_headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers
}

fn memory_of<'a>(inputs: impl Iterator<Item = &'a OrderInput>) -> u64 {
    let sizes = inputs.map(picture_bytes);
    let pictures = sizes.fold(0, u64::saturating_add);
    REQUEST_BYTES.saturating_add(pictures.saturating_mul(BYTES_PER_PICTURE_BYTE))
}

fn picture_bytes(input: &OrderInput) -> u64 {
    input.picture().map_or(0, SpooledPicture::size_bytes)
}

/// The inputs of each request to a webhook.
fn batches(inputs: &[OrderInput]) -> Vec<Vec<&OrderInput>> {
    let mut batches: Vec<Vec<&OrderInput>> = Vec::new();
    let mut bytes = 0;
    for input in inputs {
        let size = picture_bytes(input);
        if batches.is_empty() || bytes + size > MAX_PICTURE_BYTES {
            batches.push(Vec::new());
            bytes = 0;
        }
        bytes += size;
        if let Some(batch) = batches.last_mut() {
            batch.push(input);
        }
    }
    batches
}

fn texts_of<'a>(batch: &[&'a OrderInput]) -> Vec<&'a str> {
    batch.iter().filter_map(|input| input.text()).collect()
}

/// The fields of the inputs of a request.
struct Names {
    texts: Vec<String>,
    pictures: Vec<String>,
}

impl Names {
    fn of(batch: &[&OrderInput]) -> Self {
        let mut names = Self {
            texts: Vec::new(),
            pictures: Vec::new(),
        };
        for input in batch {
            let list = match &input.content {
                InputContent::Text(_) => &mut names.texts,
                InputContent::Picture(_) => &mut names.pictures,
            };
            list.push(input.param.clone());
        }
        names
    }

    /// The field of the input that the receiver names: a field, `text`, or `images` with a number.
    fn param(&self, input: Option<&str>) -> String {
        let mut all = self.texts.iter().chain(&self.pictures);
        let named = input.and_then(|name| {
            let mut fields = self.texts.iter().chain(&self.pictures);
            let field = fields.find(|field| field.as_str() == name);
            field.or_else(|| match name {
                "text" => self.texts.first(),
                "images" => self.pictures.first(),
                _ => {
                    let number = name.strip_prefix("images[")?.strip_suffix(']')?;
                    self.pictures.get(number.parse::<usize>().ok()?)
                }
            })
        });
        named.or_else(|| all.next()).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_names_inputs_in_several_ways() {
        let names = Names {
            texts: vec!["prompt".to_owned(), "lyrics".to_owned()],
            pictures: vec!["image".to_owned(), "end_image".to_owned()],
        };
        for (input, param) in [
            (None, "prompt"),
            (Some("text"), "prompt"),
            (Some("lyrics"), "lyrics"),
            (Some("images"), "image"),
            (Some("images[1]"), "end_image"),
            (Some("images[2]"), "prompt"),
            (Some("?"), "prompt"),
        ] {
            assert_eq!(names.param(input), param, "{input:?}");
        }
    }

    #[test]
    fn an_order_without_inputs_has_no_requests() {
        assert!(batches(&[]).is_empty());
        let inputs = [OrderInput {
            param: "prompt".to_owned(),
            content: InputContent::Text("a".to_owned()),
        }];
        assert_eq!(batches(&inputs).len(), 1);
        assert_eq!(memory_of(inputs.iter()), REQUEST_BYTES);
    }
}
