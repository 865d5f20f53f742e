//! Sends one call, and decides what a broken connection proves.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use outbound::AddressRefusal;
use reqwest::multipart;
use tokio::time::Instant;

use super::answer::{ArrivingBody, ReceivedAnswer};
use super::auth::{CallCredential, now};
use super::fence::{DeadlinePassed, FencedBody, SendDeadline, is_deadline_passed};
use super::provider::{CallDestination, Provider, blocked_error};
use crate::error::{ErrorClass, ProviderError};
use crate::port::{Call, CallEffect, FormPart, OutgoingCall, RequestBody, TimeoutClass};

/// A body extends the timeout by its size at 500 kB per second, for slow connections.
const BODY_BYTES_PER_SECOND: u64 = 500_000;

/// A call without an answer.
#[derive(Debug)]
pub(super) struct SendError {
    pub(super) error: ProviderError,
    /// Whether the provider may have received it. `false` is proof that it did not: no byte of the
    /// request was sent.
    pub(super) reached: bool,
}

impl SendError {
    pub(super) const fn unsent(error: ProviderError) -> Self {
        Self {
            error,
            reached: false,
        }
    }

    fn lost(message: &str) -> Self {
        Self {
            error: ProviderError::new(ErrorClass::Unclear, message),
            reached: true,
        }
    }

    fn from_reqwest(error: &reqwest::Error) -> Self {
        // The resolver's refusal appears as a connect error. It is checked first, because no retry
        // helps.
        if let Some(refusal) = AddressRefusal::cause_of(error) {
            return Self::unsent(blocked_error(refusal.to_string()));
        }
        if is_deadline_passed(error) {
            return Self::unsent(DeadlinePassed.into());
        }
        if error.is_connect() {
            // Name lookup, TCP or TLS: no byte of the request was sent.
            let message = "the provider cannot be reached";
            return Self::unsent(ProviderError::new(ErrorClass::Unavailable, message));
        }
        if error.is_builder() {
            let message = "the request cannot be encoded";
            return Self::unsent(ProviderError::new(ErrorClass::Rejected, message));
        }
        // Everything else may have happened after the request was sent, so it proves nothing.
        Self::lost("the connection to the provider was lost before its response arrived")
    }
}

/// Called with the latest part of the answer.
pub(super) type ProgressCallback<'a> = &'a (dyn Fn(&[u8]) + Send + Sync);

/// A request that is ready to be sent.
pub(super) struct PreparedRequest {
    request: reqwest::RequestBuilder,
    total_timeout: Duration,
    /// Whether it has trace headers: only requests to the provider itself do.
    carries_trace: bool,
}

impl PreparedRequest {
    /// The same request, but it is not sent after the deadline.
    pub(super) fn with_deadline(self, fence: &SendDeadline) -> Result<Self, SendError> {
        // Saves the connection, and is the only check for a request without a body.
        if fence.is_over() {
            return Err(SendError::unsent(DeadlinePassed.into()));
        }
        let (client, request) = self.request.build_split();
        let mut request = request.map_err(|error| SendError::from_reqwest(&error))?;
        if let Some(body) = request.body_mut().take() {
            let fenced = reqwest::Body::wrap(FencedBody::new(body, fence));
            *request.body_mut() = Some(fenced);
        }
        Ok(Self {
            request: reqwest::RequestBuilder::from_parts(client, request),
            ..self
        })
    }

    /// The request, for code that reads the answer itself.
    pub(super) fn into_request(self) -> reqwest::RequestBuilder {
        self.request
    }
}

impl Provider {
    /// Builds the request for a call. `credential` is sent only to trusted hosts.
    pub(super) fn prepare(
        &self,
        call: &Call,
        destination: CallDestination,
        credential: &CallCredential,
    ) -> Result<PreparedRequest, ProviderError> {
        let carries_trace = destination.trusted;
        let client = match call.effect {
            CallEffect::Submission => self.submission_client(destination.trusted),
            CallEffect::Free => self.client(destination.trusted),
        };
        let (body, size) = encode_body(&call.body)?;
        let mut headers = HeaderMap::new();
        if let Some(mime) = mime(&call.body) {
            headers.insert(CONTENT_TYPE, header_value(mime)?);
        }
        for (name, text) in &call.headers {
            headers.insert(header_name(name)?, header_value(text)?);
        }
        if call.with_credential && destination.trusted {
            // Signed last: the signature covers the body as it is sent.
            let outgoing = OutgoingCall {
                method: &call.method,
                url: &destination.url,
                mime: mime(&call.body),
                body: body.as_bytes(),
                now: now(),
            };
            for (name, text) in credential.headers_for(outgoing)? {
                let mut secret = header_value(&text)?;
                // Hidden in debug output, and kept out of HTTP/2's compression table.
                secret.set_sensitive(true);
                headers.insert(header_name(name)?, secret);
            }
        }
        let request = client
            .request(call.method.clone(), destination.url)
            .headers(headers);
        let rules = self.rules();
        let base_timeout = match call.timeout {
            TimeoutClass::Short => rules.short_timeout,
            TimeoutClass::Work => rules.work_timeout,
        };
        Ok(PreparedRequest {
            carries_trace,
            request: match body {
                RequestContent::Empty => request,
                RequestContent::Bytes(bytes) => request.body(bytes),
                RequestContent::Form(form) => request.multipart(form),
            },
            total_timeout: base_timeout + Duration::from_secs(size / BODY_BYTES_PER_SECOND),
        })
    }

    /// Sends it, once, and receives the whole answer.
    pub(super) async fn send(
        &self,
        prepared: PreparedRequest,
        limit_bytes: u64,
        progress: Option<ProgressCallback<'_>>,
    ) -> Result<ReceivedAnswer, SendError> {
        let PreparedRequest {
            mut request,
            total_timeout,
            carries_trace,
        } = prepared;
        if carries_trace {
            let mut headers = HeaderMap::new();
            spans::inject_headers(&mut headers);
            request = request.headers(headers);
        }
        let exchange = async {
            let answer = request
                .send()
                .await
                .map_err(|error| SendError::from_reqwest(&error))?;
            self.receive(answer, limit_bytes, progress).await
        };
        // A failed connection ends earlier, by `connect_timeout`. When this limit is over, the
        // request may have been sent, so the call counts as lost and not as unsent.
        let answered = tokio::time::timeout(total_timeout, exchange).await;
        answered.unwrap_or_else(|_| {
            Err(SendError::lost(
                "the provider did not respond within the time limit",
            ))
        })
    }

    async fn receive(
        &self,
        mut answer: reqwest::Response,
        limit_bytes: u64,
        progress: Option<ProgressCallback<'_>>,
    ) -> Result<ReceivedAnswer, SendError> {
        let (status, headers) = (answer.status(), answer.headers().clone());
        spans::set_attribute("http.response.status_code", i64::from(status.as_u16()));
        // An answer that is not received to its end counts as lost: it may have contained a job's
        // id.
        let too_long = || SendError::lost("the provider's response is too large");
        let not_stored = |_| SendError::lost("the provider's response could not be stored");
        let length = answer.content_length();
        if length.is_some_and(|length| length > limit_bytes) {
            return Err(too_long());
        }
        let rules = self.rules();
        let mut body = ArrivingBody::new(&rules.spool);
        let mut watch = progress.map(StreamWatch::new);
        loop {
            // A limit between two pieces, because the one for the whole call may be a quarter of an
            // hour.
            let chunk = tokio::time::timeout(rules.idle_timeout, answer.chunk()).await;
            let chunk = chunk.map_err(|_| SendError::lost("the provider's response stalled"))?;
            let Some(chunk) = chunk.map_err(|error| SendError::from_reqwest(&error))? else {
                break;
            };
            if body.size() + chunk.len() as u64 > limit_bytes {
                return Err(too_long());
            }
            body.push(&chunk).await.map_err(not_stored)?;
            if let Some(watch) = &mut watch {
                watch.push(&chunk);
            }
        }
        let received = ReceivedAnswer::new(status, headers, body).await;
        received.map_err(not_stored)
    }
}

/// Shows the progress that a streamed answer reports.
struct StreamWatch<'a> {
    progress: ProgressCallback<'a>,
    /// The latest bytes of the answer.
    latest: Vec<u8>,
    shown: Option<Instant>,
}

impl<'a> StreamWatch<'a> {
    fn new(progress: ProgressCallback<'a>) -> Self {
        Self {
            progress,
            latest: Vec::new(),
            shown: None,
        }
    }

    fn push(&mut self, chunk: &[u8]) {
        const LATEST_BYTES: usize = 16 << 10;
        const MIN_INTERVAL: Duration = Duration::from_millis(250);
        let chunk = &chunk[chunk.len().saturating_sub(LATEST_BYTES)..];
        let surplus = (self.latest.len() + chunk.len()).saturating_sub(LATEST_BYTES);
        self.latest.drain(..surplus);
        self.latest.extend_from_slice(chunk);
        // All of it is read each time, so not for every piece.
        if self
            .shown
            .is_none_or(|shown| shown.elapsed() >= MIN_INTERVAL)
        {
            self.shown = Some(Instant::now());
            (self.progress)(&self.latest);
        }
    }
}

enum RequestContent {
    Empty,
    Bytes(Bytes),
    Form(multipart::Form),
}

impl RequestContent {
    /// The bytes to sign; empty for a form, which is encoded while it is sent.
    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Empty | Self::Form(_) => &[],
        }
    }
}

/// The content and about how many bytes it has.
fn encode_body(body: &RequestBody) -> Result<(RequestContent, u64), ProviderError> {
    let bytes = match body {
        RequestBody::Empty => return Ok((RequestContent::Empty, 0)),
        RequestBody::Json(value) => Bytes::from(value.to_string()),
        RequestBody::Form(fields) => {
            let mut form = url::form_urlencoded::Serializer::new(String::new());
            Bytes::from(form.extend_pairs(fields).finish())
        }
        RequestBody::Multipart(parts) => {
            // Field names are not encoded: servers do not decode the ones that reqwest would
            // encode.
            let mut form = multipart::Form::new().percent_encode_noop();
            let mut size = 0;
            for part in parts {
                size += add_part(&mut form, part)?;
            }
            return Ok((RequestContent::Form(form), size));
        }
        RequestBody::Bytes { bytes, .. } => bytes.clone(),
    };
    let size = bytes.len() as u64;
    Ok((RequestContent::Bytes(bytes), size))
}

fn add_part(form: &mut multipart::Form, part: &FormPart) -> Result<u64, ProviderError> {
    let (name, part, size) = match part {
        FormPart::Text { name, value } => {
            let part = multipart::Part::text(value.clone());
            (name, part, value.len() as u64)
        }
        FormPart::File {
            name,
            file_name,
            mime,
            bytes,
        } => {
            let size = bytes.len() as u64;
            let part = multipart::Part::stream_with_length(bytes.clone(), size)
                .file_name(file_name.clone())
                .mime_str(mime)
                .map_err(|_| unsendable_character())?;
            (name, part, size)
        }
    };
    // Nothing encodes the name (see `encode_body`), so these would end its quotes or forge a
    // header.
    if name.contains(['"', '\r', '\n']) {
        return Err(unsendable_character());
    }
    let form_so_far = std::mem::take(form);
    *form = form_so_far.part(name.clone(), part);
    Ok(size)
}

fn mime(body: &RequestBody) -> Option<&str> {
    match body {
        // Multipart sets its own type, with the boundary.
        RequestBody::Empty | RequestBody::Multipart(_) => None,
        RequestBody::Json(_) => Some("application/json"),
        RequestBody::Form(_) => Some("application/x-www-form-urlencoded"),
        RequestBody::Bytes { mime, .. } => Some(mime),
    }
}

fn header_name(name: &str) -> Result<HeaderName, ProviderError> {
    HeaderName::from_bytes(name.as_bytes()).map_err(|_| unsendable_character())
}

fn header_value(text: &str) -> Result<HeaderValue, ProviderError> {
    HeaderValue::from_str(text).map_err(|_| unsendable_character())
}

fn unsendable_character() -> ProviderError {
    let message = "the request contains a character that cannot be sent";
    ProviderError::new(ErrorClass::Rejected, message)
}
