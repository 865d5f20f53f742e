//! Multipart forms: read part by part, with limits on size, parts and headers. Each part must be
//! read to its end before the next.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::multipart::{Field, MultipartError};
use axum::extract::{FromRequest as _, Multipart, Request};
use axum::http::header;
use http_body::{Frame, SizeHint};

use crate::body::{check_encoding, drain, too_large};
use mediagate_core::app::App;
use mediagate_model::error::{Error, ErrorCode};

/// Maximum number of parts of a form.
const MAX_PARTS: usize = 64;
/// Maximum number of bytes before a part's content; checked before more of the body is read.
const MAX_HEAD_BYTES: u64 = 16_384;
/// Maximum number of bytes of a form beyond the contents of its parts.
const MAX_FRAMING_BYTES: u64 = 1_000_000;
/// Longest `Content-Type` header, which contains the boundary.
const MAX_CONTENT_TYPE_BYTES: usize = 300;

/// A form being read.
pub(crate) struct MultipartForm {
    parts: Multipart,
    limits: Arc<FormLimits>,
    count: usize,
    /// Bytes that all parts together may have.
    limit: u64,
}

/// A part of a form.
pub(crate) struct FormPart<'a> {
    field: Field<'a>,
    limits: Arc<FormLimits>,
    limit: u64,
}

/// The bytes of the current part's head, and why reading stopped.
#[derive(Default)]
struct FormLimits {
    is_in_head: AtomicBool,
    head_bytes: AtomicU64,
    refusal: AtomicU8,
}

const TOO_LARGE: u8 = 1;
const LONG_HEAD: u8 = 2;

impl MultipartForm {
    /// Starts to read a form whose contents have at most `limit` bytes.
    pub(crate) async fn open(request: Request, app: &App, limit: u64) -> Result<Self, Error> {
        if let Err(error) = check_encoding(request.headers()) {
            drain(request.into_body()).await;
            return Err(error);
        }
        let content_type = request.headers().get(header::CONTENT_TYPE);
        // RFC 2046 limits a boundary to 70 characters, so no legitimate form needs more.
        if content_type.is_some_and(|content_type| content_type.len() > MAX_CONTENT_TYPE_BYTES) {
            return Err(malformed_form("its boundary is too long"));
        }
        let limits = Arc::<FormLimits>::default();
        let body_limits = limits.clone();
        let request = request.map(|body| {
            Body::new(LimitedBody {
                body,
                limits: body_limits,
                remaining: limit + MAX_FRAMING_BYTES,
                is_pausing: false,
            })
        });
        let parts = Multipart::from_request(request, app)
            .await
            .map_err(|error| malformed_form(&error.body_text()))?;
        Ok(Self {
            parts,
            limits,
            count: 0,
            limit,
        })
    }

    /// The next part; the previous one must have been read to its end.
    pub(crate) async fn next(&mut self) -> Result<Option<FormPart<'_>>, Error> {
        // `Relaxed` is enough: the parser polls the body within the same task.
        self.limits.head_bytes.store(0, Ordering::Relaxed);
        self.limits.is_in_head.store(true, Ordering::Relaxed);
        let field = self.parts.next_field().await;
        self.limits.is_in_head.store(false, Ordering::Relaxed);
        // The parser hides the body's own error, so the reason is kept in `limits`.
        let field = field.map_err(|error| self.limits.error(&error, self.limit))?;
        self.count += 1;
        if field.is_some() && self.count > MAX_PARTS {
            return Err(malformed_form(&format!(
                "it has more than {MAX_PARTS} parts"
            )));
        }
        Ok(field.map(|field| FormPart {
            field,
            limits: self.limits.clone(),
            limit: self.limit,
        }))
    }
}

impl FormPart<'_> {
    pub(crate) fn name(&self) -> Option<&str> {
        self.field.name()
    }

    pub(crate) fn file_name(&self) -> Option<&str> {
        self.field.file_name()
    }

    /// The next piece of the part's content.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        let chunk = self.field.chunk().await;
        chunk.map_err(|error| self.limits.error(&error, self.limit))
    }

    /// The whole part as text of at most `max_bytes` bytes.
    pub(crate) async fn text(mut self, max_bytes: usize) -> Result<String, Error> {
        let name = self.name().unwrap_or_default().to_owned();
        let mut bytes = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if bytes.len() + chunk.len() > max_bytes {
                return Err(Error::at_field(
                    ErrorCode::InvalidValue,
                    name,
                    "The value is too long.",
                ));
            }
            bytes.extend_from_slice(&chunk);
        }
        String::from_utf8(bytes)
            .map_err(|_| Error::at_field(ErrorCode::InvalidValue, name, "Must be UTF-8 text."))
    }

    /// Reads the part to its end and discards it.
    pub(crate) async fn skip(mut self) -> Result<(), Error> {
        while self.chunk().await?.is_some() {}
        Ok(())
    }
}

impl FormLimits {
    /// The error to report for the parser's error.
    fn error(&self, error: &MultipartError, limit: u64) -> Error {
        match self.refusal.load(Ordering::Relaxed) {
            TOO_LARGE => too_large("The form", usize::try_from(limit).unwrap_or(usize::MAX)),
            LONG_HEAD => malformed_form(&format!(
                "a part's headers have more than {MAX_HEAD_BYTES} bytes"
            )),
            _ => malformed_form(&error.body_text()),
        }
    }
}

/// The error for a form that cannot be parsed.
fn malformed_form(reason: &str) -> Error {
    let message = format!("The form is malformed: {reason}.");
    Error::plain(ErrorCode::InvalidValue, message)
}

/// The form's body, which ends with an error at a limit.
struct LimitedBody {
    body: Body,
    limits: Arc<FormLimits>,
    remaining: u64,
    /// Whether the next poll is a pause. Without pauses between the pieces, the parser would buffer
    /// everything that has arrived.
    is_pausing: bool,
}

impl LimitedBody {
    fn refuse<T>(&self, reason: u8) -> Poll<Option<Result<T, axum::Error>>> {
        self.limits.refusal.store(reason, Ordering::Relaxed);
        let error = std::io::Error::from(std::io::ErrorKind::InvalidData);
        Poll::Ready(Some(Err(axum::Error::new(error))))
    }
}

impl HttpBody for LimitedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if std::mem::take(&mut self.is_pausing) {
            // multer reads on until its source is pending. A pause lets it parse one piece before
            // it buffers another.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let is_in_head = self.limits.is_in_head.load(Ordering::Relaxed);
        // Checked before the next piece is polled: the parser buffers at most one piece beyond the
        // limit.
        if is_in_head && self.limits.head_bytes.load(Ordering::Relaxed) > MAX_HEAD_BYTES {
            return self.refuse(LONG_HEAD);
        }
        let poll = Pin::new(&mut self.body).poll_frame(context);
        let Poll::Ready(Some(Ok(frame))) = &poll else {
            return poll;
        };
        let length = frame.data_ref().map_or(0, Bytes::len) as u64;
        let Some(remaining) = self.remaining.checked_sub(length) else {
            return self.refuse(TOO_LARGE);
        };
        self.remaining = remaining;
        self.is_pausing = true;
        if is_in_head {
            self.limits.head_bytes.fetch_add(length, Ordering::Relaxed);
        }
        poll
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
