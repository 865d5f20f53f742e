//! Errors, independent of the protocol.
//!
//! An [`Error`] has a public half for the caller: a code, a message and a place in the request.
//! Some, such as [`Error::Internal`], also have a cause, for the log. HTTP appears only in [`ErrorCode`].

use std::error::Error as StdError;
use std::fmt;

use crate::ids::TaskId;

/// Declares the codes: Rust name, public name, status, type.
macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $status:literal, $kind:ident;)*) => {
        /// The stable name of an error; `docs/errors.md` lists them all.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ErrorCode { $($(#[$doc])* $variant,)* }

        impl ErrorCode {
            /// In the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status,)* }
            }

            pub const fn kind(self) -> ErrorKind {
                match self { $(Self::$variant => ErrorKind::$kind,)* }
            }
        }
    };
}

codes! {
    /// The body is not valid JSON.
    InvalidJson = "invalid_json", 400, InvalidRequest;
    /// A required field is missing.
    MissingField = "missing_field", 400, InvalidRequest;
    /// A field has the wrong JSON type.
    InvalidType = "invalid_type", 400, InvalidRequest;
    /// A field's value is out of range or malformed.
    InvalidValue = "invalid_value", 400, InvalidRequest;
    /// The value is valid, but the model or this gateway does not support it.
    UnsupportedValue = "unsupported_value", 400, InvalidRequest;
    /// No API key was sent.
    MissingApiKey = "missing_api_key", 401, Authentication;
    /// The key is malformed or unknown.
    InvalidApiKey = "invalid_api_key", 401, Authentication;
    /// The key has expired.
    ExpiredApiKey = "expired_api_key", 401, Authentication;
    /// The key that was sent was revoked.
    RevokedApiKey = "revoked_api_key", 401, Authentication;
    /// A budget, or the account's credit, does not cover the price.
    BudgetExceeded = "budget_exceeded", 402, Budget;
    /// The order may cost more than its `max_cost_usd`.
    CostLimit = "cost_limit", 402, Budget;
    /// The key lacks the scope named in the message.
    InsufficientScope = "insufficient_scope", 403, Permission;
    /// The key may not use this model.
    ModelNotAllowed = "model_not_allowed", 403, Permission;
    /// The key may not be used from this IP address.
    AddressNotAllowed = "address_not_allowed", 403, Permission;
    /// The key was rotated, and the request requires the new key.
    FormerApiKey = "former_api_key", 403, Permission;
    /// The order is the approver's own, and `approval_by_others` is set.
    ApprovalByOthers = "approval_by_others", 403, Permission;
    /// A write request with a session lacks its CSRF token.
    CsrfTokenRequired = "csrf_token_required", 403, Permission;
    /// There is no model with this name.
    ModelNotFound = "model_not_found", 404, NotFound;
    /// The account has no such clip.
    ClipNotFound = "clip_not_found", 404, NotFound;
    /// The account has no such task. Also for a repeated request whose task was deleted; the
    /// message then states the task's cost if it is known.
    TaskNotFound = "task_not_found", 404, NotFound;
    /// The account has no such persona.
    PersonaNotFound = "persona_not_found", 404, NotFound;
    /// The account has no such webhook endpoint.
    WebhookNotFound = "webhook_not_found", 404, NotFound;
    /// The account has no such webhook delivery.
    DeliveryNotFound = "delivery_not_found", 404, NotFound;
    /// There is no such API key.
    KeyNotFound = "key_not_found", 404, NotFound;
    /// There is no such account.
    AccountNotFound = "account_not_found", 404, NotFound;
    /// There are no limits for this end user.
    UserNotFound = "user_not_found", 404, NotFound;
    /// There is no such submission to a provider.
    SubmissionNotFound = "submission_not_found", 404, NotFound;
    /// No model has a route with this provider and model.
    ProviderNotFound = "provider_not_found", 404, NotFound;
    /// The account has no such media file, or the URL's signature is wrong.
    MediaNotFound = "media_not_found", 404, NotFound;
    /// There is no endpoint at this path.
    RouteNotFound = "route_not_found", 404, NotFound;
    /// The endpoint exists, but not for this method.
    MethodNotAllowed = "method_not_allowed", 405, InvalidRequest;
    /// The clip is not complete yet, has failed, or is in the trash.
    ClipNotReady = "clip_not_ready", 409, Conflict;
    /// The `Idempotency-Key` was used with a different request within the last 24 hours.
    IdempotencyConflict = "idempotency_conflict", 409, Conflict;
    /// The task has already ended.
    TaskNotCancellable = "task_not_cancellable", 409, Conflict;
    /// The task does not wait for approval: nobody asked for it, or it was decided or cancelled.
    ApprovalNotPending = "approval_not_pending", 409, Conflict;
    /// The account has reached the maximum number of these objects, or of rotations of a webhook's
    /// secret within 24 hours.
    LimitReached = "limit_reached", 409, Conflict;
    /// The key that the request should change was revoked.
    KeyRevoked = "key_revoked", 409, Conflict;
    /// An account with this handle already exists.
    HandleTaken = "handle_taken", 409, Conflict;
    /// The account was closed and gets no new keys.
    AccountClosed = "account_closed", 409, Conflict;
    /// The task's cost cannot be adjusted, or was already adjusted.
    NotAdjustable = "not_adjustable", 409, Conflict;
    /// The submission is not unconfirmed, or was already resolved.
    NotUnconfirmed = "not_unconfirmed", 409, Conflict;
    /// The video is not finished yet.
    VideoNotReady = "video_not_ready", 409, Conflict;
    /// The media URL has expired, or the file was removed. If this answers a repeated request, the
    /// message states what the first one cost.
    LinkExpired = "link_expired", 410, NotFound;
    /// The file is not the version that the request requires.
    PreconditionFailed = "precondition_failed", 412, InvalidRequest;
    /// The body is larger than the limit in the message.
    BodyTooLarge = "body_too_large", 413, InvalidRequest;
    /// The account has used up its `storage_limit`.
    StorageFull = "storage_full", 413, InvalidRequest;
    /// The endpoint does not accept this media type, or the body is compressed.
    UnsupportedMediaType = "unsupported_media_type", 415, InvalidRequest;
    /// The requested range lies outside the file.
    RangeNotSatisfiable = "range_not_satisfiable", 416, InvalidRequest;
    /// The image could not be fetched from its URL.
    ImageFetchFailed = "image_fetch_failed", 422, Media;
    /// Fetching the image's URL is not allowed.
    ImageFetchBlocked = "image_fetch_blocked", 422, Media;
    /// A provenance check could not fetch the file from its URL.
    FileFetchFailed = "file_fetch_failed", 422, Media;
    /// A provenance check may not fetch the file from this URL.
    FileFetchBlocked = "file_fetch_blocked", 422, Media;
    /// The image cannot be read.
    ImageInvalid = "image_invalid", 422, Media;
    /// The image exceeds a limit.
    ImageTooLarge = "image_too_large", 422, Media;
    /// The audio could not be fetched from its URL.
    AudioFetchFailed = "audio_fetch_failed", 422, Media;
    /// Fetching the audio's URL is not allowed.
    AudioFetchBlocked = "audio_fetch_blocked", 422, Media;
    /// The audio cannot be read.
    AudioInvalid = "audio_invalid", 422, Media;
    /// The audio is longer than the limit.
    AudioTooLong = "audio_too_long", 422, Media;
    /// The model's provider, or the operator's moderation, refuses this content.
    ContentPolicy = "content_policy", 422, Provider;
    /// The model's provider rejected the request, or the URL of its result is not allowed. Or an
    /// embedded engine crashed three times at the task.
    ProviderRejected = "provider_rejected", 422, Provider;
    /// It is unknown whether the provider accepted the task, or the accepted job exceeded
    /// `job_limit`. Nothing is charged, and nothing is sent twice.
    SubmissionUnconfirmed = "submission_unconfirmed", 424, Provider;
    /// The task was cancelled while the client waited for it.
    TaskCancelled = "cancelled", 409, Conflict;
    /// The order was rejected instead of approved.
    ApprovalRejected = "approval_rejected", 409, Conflict;
    /// Nobody approved the order within `approval_ttl`.
    ApprovalExpired = "approval_expired", 409, Conflict;
    /// The key's limit of requests per minute is exceeded, or the limit of provenance checks
    /// without a key.
    RateLimitExceeded = "rate_limit_exceeded", 429, RateLimit;
    /// The key has reached its limit of open tasks.
    TooManyTasks = "too_many_tasks", 429, RateLimit;
    /// The key or its account has reached its limit of open event streams and waits.
    TooManyOpenRequests = "too_many_open_requests", 429, RateLimit;
    /// An internal error occurred. The log contains the details under the request id.
    InternalError = "internal_error", 500, Server;
    /// All routes to the model are down, or no provider accepted the task.
    ProviderUnavailable = "provider_unavailable", 503, Provider;
    /// The task failed: at the provider, or in an embedded engine. Or its source was removed before
    /// it began.
    GenerationFailed = "generation_failed", 503, Provider;
    /// The wait timed out. The task continues.
    StillRunning = "still_running", 503, Server;
    /// The gateway is at capacity, or a part of it does not work at the moment.
    Overloaded = "overloaded", 503, Server;
    /// The process is shutting down.
    ShuttingDown = "shutting_down", 503, Server;
}

impl ErrorCode {
    /// The code with this name, as stored in tasks.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.name() == name)
    }

    /// Whether the same request can succeed later: exactly 429, 500 and 503.
    pub const fn retryable(self) -> bool {
        matches!(self.status(), 429 | 500 | 503)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The kind of an error: the field `type` of its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request itself is wrong.
    InvalidRequest,
    /// There is no valid key.
    Authentication,
    /// The key lacks a permission.
    Permission,
    /// What the request refers to does not exist.
    NotFound,
    /// The request does not fit the current state.
    Conflict,
    /// Not enough money.
    Budget,
    /// Too many requests.
    RateLimit,
    /// A picture or a recording cannot be used.
    Media,
    /// An error of the model or its provider.
    Provider,
    /// An error of this gateway.
    Server,
}

impl ErrorKind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request_error",
            Self::Authentication => "authentication_error",
            Self::Permission => "permission_error",
            Self::NotFound => "not_found_error",
            Self::Conflict => "conflict_error",
            Self::Budget => "budget_error",
            Self::RateLimit => "rate_limit_error",
            Self::Media => "media_error",
            Self::Provider => "provider_error",
            Self::Server => "server_error",
        }
    }
}

/// One mistake in a request's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// One of the five codes of a malformed or impossible request.
    pub code: ErrorCode,
    /// Path of the field: `messages[0].content`.
    pub param: String,
    /// For the caller, without the path.
    pub message: String,
}

/// Why a request failed.
#[derive(Debug)]
pub enum Error {
    /// Mistakes in the body, at least one.
    Invalid(Vec<FieldError>),
    /// An error that is not about a field, or whose code is sufficient.
    Plain {
        code: ErrorCode,
        message: String,
        /// Path of the field, if one applies.
        param: Option<String>,
    },
    /// An error that can be retried after this many seconds.
    RetryAfter {
        /// A code with status 429, 500 or 503.
        code: ErrorCode,
        message: String,
        retry_after: u32,
    },
    /// What a failed task did not make was requested. The failure stays, so repeating this request
    /// cannot help, even if its code is one for which the order can be repeated.
    NotMade { code: ErrorCode, message: String },
    /// An error about an existing task.
    WithTask { task: TaskId, error: Box<Error> },
    /// The database does not answer, or cannot be written to.
    Unavailable {
        /// For the log.
        cause: Box<dyn StdError + Send + Sync>,
        /// Whether something may have been written anyway.
        outcome_unknown: bool,
    },
    /// The media store does not answer, or is too busy; nothing refers to files that it may have
    /// stored.
    MediaUnavailable {
        /// For the log.
        cause: Box<dyn StdError + Send + Sync>,
    },
    /// Another request with the same intent came first; nothing was made for this one.
    Overtaken,
    /// The caller has disconnected, and nothing was made for this request: a retry of it may have
    /// been served meanwhile.
    CallerLeft,
    /// An unexpected error; the caller only learns that one occurred.
    Internal(Box<dyn StdError + Send + Sync>),
}

impl Error {
    /// An error that is not about a field.
    pub fn plain(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Plain {
            code,
            message: message.into(),
            param: None,
        }
    }

    /// A mistake in one field.
    pub fn at_field(code: ErrorCode, param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Plain {
            code,
            message: message.into(),
            param: Some(param.into()),
        }
    }

    /// The error for an `after` that names no item of a list, or one that was removed since. An empty
    /// page would look like the end of the list.
    pub fn unknown_cursor() -> Self {
        let message = "Must be the id of an item in this list.";
        Self::at_field(ErrorCode::InvalidValue, "after", message)
    }

    /// An error that can be retried.
    pub fn retry_later(code: ErrorCode, message: impl Into<String>, retry_after: u32) -> Self {
        Self::RetryAfter {
            code,
            message: message.into(),
            retry_after,
        }
    }

    /// Adds the task that the error is about.
    #[must_use]
    pub fn with_task(self, task: TaskId) -> Self {
        Self::WithTask {
            task,
            error: Box::new(self),
        }
    }

    /// An unexpected error, with details for the log.
    pub fn internal(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Internal(cause.into())
    }

    /// The database is unavailable; `outcome_unknown` if something may have been written.
    pub fn unavailable(
        cause: impl Into<Box<dyn StdError + Send + Sync>>,
        outcome_unknown: bool,
    ) -> Self {
        Self::Unavailable {
            cause: cause.into(),
            outcome_unknown,
        }
    }

    /// The media store is unavailable.
    pub fn media_unavailable(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::MediaUnavailable {
            cause: cause.into(),
        }
    }

    /// Whether something may have been written although the request failed.
    pub fn outcome_unknown(&self) -> bool {
        match self {
            // Unexpected: something may have been written.
            Self::Internal(_) => true,
            Self::Unavailable {
                outcome_unknown, ..
            } => *outcome_unknown,
            Self::WithTask { error, .. } => error.outcome_unknown(),
            Self::Invalid(_)
            | Self::Plain { .. }
            | Self::RetryAfter { .. }
            | Self::NotMade { .. }
            | Self::MediaUnavailable { .. }
            | Self::Overtaken
            | Self::CallerLeft => false,
        }
    }

    /// The process is shutting down.
    pub fn shutting_down() -> Self {
        Self::retry_later(
            ErrorCode::ShuttingDown,
            "The service is restarting. Try again in a moment.",
            2,
        )
    }

    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Invalid(faults) => faults
                .first()
                .map_or(ErrorCode::InvalidValue, |fault| fault.code),
            Self::Plain { code, .. }
            | Self::RetryAfter { code, .. }
            | Self::NotMade { code, .. } => *code,
            Self::WithTask { error, .. } => error.code(),
            // All of these are temporary, so the code is one that clients retry.
            Self::Unavailable { .. }
            | Self::MediaUnavailable { .. }
            | Self::Overtaken
            | Self::CallerLeft => ErrorCode::Overloaded,
            Self::Internal(_) => ErrorCode::InternalError,
        }
    }

    /// The status of a response with this error.
    pub fn status(&self) -> u16 {
        /// The state of the task does not allow the request.
        const CONFLICT: u16 = 409;
        match self {
            Self::NotMade { code, .. } if code.retryable() => CONFLICT,
            Self::WithTask { error, .. } => error.status(),
            _ => self.code().status(),
        }
    }

    /// Whether the same request can succeed later.
    pub fn retryable(&self) -> bool {
        self.retry_after().is_some()
    }

    /// The text for the caller.
    pub fn message(&self) -> String {
        match self {
            Self::Invalid(faults) => summarize_errors(faults),
            Self::Plain { message, .. }
            | Self::RetryAfter { message, .. }
            | Self::NotMade { message, .. } => message.clone(),
            Self::WithTask { error, .. } => error.message(),
            Self::Unavailable { .. } => {
                "The gateway's database does not respond in time. Try again in a moment.".to_owned()
            }
            Self::MediaUnavailable { .. } => {
                "The gateway's media store does not respond in time. Try again in a moment.".to_owned()
            }
            Self::Overtaken => "Another attempt of the same request took over.".to_owned(),
            Self::CallerLeft => "The client disconnected before anything was made.".to_owned(),
            Self::Internal(_) => {
                "An internal error occurred in the gateway. Report the request id if it happens again.".to_owned()
            }
        }
    }

    /// The path of the first invalid field.
    pub fn param(&self) -> Option<&str> {
        match self {
            Self::Invalid(faults) => faults
                .first()
                .map(|f| f.param.as_str())
                .filter(|param| !param.is_empty()),
            Self::Plain { param, .. } => param.as_deref(),
            Self::WithTask { error, .. } => error.param(),
            Self::RetryAfter { .. }
            | Self::NotMade { .. }
            | Self::Unavailable { .. }
            | Self::MediaUnavailable { .. }
            | Self::Overtaken
            | Self::CallerLeft
            | Self::Internal(_) => None,
        }
    }

    /// Seconds to wait before a retry; `Some` exactly if the status is 429, 500 or 503.
    pub fn retry_after(&self) -> Option<u32> {
        match self {
            Self::RetryAfter { retry_after, .. } => Some(*retry_after),
            Self::WithTask { error, .. } => error.retry_after(),
            Self::Overtaken => Some(1),
            Self::NotMade { .. } => None,
            Self::Invalid(_)
            | Self::Plain { .. }
            | Self::Unavailable { .. }
            | Self::MediaUnavailable { .. }
            | Self::CallerLeft
            | Self::Internal(_) => self.code().retryable().then_some(2),
        }
    }

    pub fn task(&self) -> Option<TaskId> {
        match self {
            Self::WithTask { task, .. } => Some(*task),
            _ => None,
        }
    }

    /// Details for the log only.
    pub fn internal_cause(&self) -> Option<&(dyn StdError + Send + Sync + 'static)> {
        match self {
            Self::Unavailable { cause, .. }
            | Self::MediaUnavailable { cause }
            | Self::Internal(cause) => Some(cause.as_ref()),
            Self::WithTask { error, .. } => error.internal_cause(),
            _ => None,
        }
    }
}

/// The first mistakes, and the number of others.
fn summarize_errors(faults: &[FieldError]) -> String {
    // A body can have thousands of faults. An answer must not grow with them.
    const MAX_LISTED: usize = 20;
    let messages = faults.iter().take(MAX_LISTED).map(|fault| {
        if fault.param.is_empty() {
            fault.message.clone()
        } else {
            format!("{}: {}", fault.param, fault.message)
        }
    });
    let mut messages: Vec<String> = messages.collect();
    if faults.len() > MAX_LISTED {
        messages.push(format!("And {} more.", faults.len() - MAX_LISTED));
    }
    messages.join(" ")
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code(), self.message())
    }
}

impl StdError for Error {}

#[cfg(test)]
mod tests;
