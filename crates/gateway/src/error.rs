//! What can go wrong, for every caller, whatever the protocol.
//!
//! An [`Error`] has an outside half (a code, a message and the place in the
//! request, all fit for a caller) and for [`Error::Internal`] an inside half
//! that only the log sees; the types keep the two apart. This module knows
//! nothing of HTTP beyond the table in [`ErrorCode`]: `http/error.rs` alone
//! makes answers of it.

use std::error::Error as StdError;
use std::fmt;

use crate::ids::TaskId;

/// Declares the table of codes: name in Rust, name outside, status, type.
macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $status:literal, $kind:ident;)*) => {
        /// The stable name of an error; `docs/errors.md` lists all of them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ErrorCode { $($(#[$doc])* $variant,)* }

        impl ErrorCode {
            /// Every code, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name that callers see.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The HTTP status that goes with the code.
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status,)* }
            }

            /// The family that the code belongs to.
            pub const fn kind(self) -> ErrorKind {
                match self { $(Self::$variant => ErrorKind::$kind,)* }
            }
        }
    };
}

codes! {
    /// The body is not JSON.
    InvalidJson = "invalid_json", 400, InvalidRequest;
    /// A required field is missing.
    MissingField = "missing_field", 400, InvalidRequest;
    /// A field has the wrong JSON type.
    InvalidType = "invalid_type", 400, InvalidRequest;
    /// A field's value is out of range or malformed.
    InvalidValue = "invalid_value", 400, InvalidRequest;
    /// The value is valid, but the model or this gateway does not offer it.
    UnsupportedValue = "unsupported_value", 400, InvalidRequest;
    /// No bearer key was sent.
    MissingApiKey = "missing_api_key", 401, Authentication;
    /// The key is malformed or unknown.
    InvalidApiKey = "invalid_api_key", 401, Authentication;
    /// The key has expired.
    ExpiredApiKey = "expired_api_key", 401, Authentication;
    /// The key was revoked.
    RevokedApiKey = "revoked_api_key", 401, Authentication;
    /// The key's budget cannot hold the price.
    BudgetExceeded = "budget_exceeded", 402, Budget;
    /// The key lacks the scope named in the message.
    InsufficientScope = "insufficient_scope", 403, Permission;
    /// The key may not use this model.
    ModelNotAllowed = "model_not_allowed", 403, Permission;
    /// The key may not be used from this address.
    AddressNotAllowed = "address_not_allowed", 403, Permission;
    /// No model has this name.
    ModelNotFound = "model_not_found", 404, NotFound;
    /// The account has no such clip.
    ClipNotFound = "clip_not_found", 404, NotFound;
    /// The account has no such task.
    TaskNotFound = "task_not_found", 404, NotFound;
    /// The account has no such persona.
    PersonaNotFound = "persona_not_found", 404, NotFound;
    /// The account has no such media file, or the URL's signature is wrong.
    MediaNotFound = "media_not_found", 404, NotFound;
    /// There is no endpoint at this path.
    RouteNotFound = "route_not_found", 404, NotFound;
    /// The endpoint exists, but not for this method.
    MethodNotAllowed = "method_not_allowed", 405, InvalidRequest;
    /// The clip is not complete yet, failed, or is in the trash.
    ClipNotReady = "clip_not_ready", 409, Conflict;
    /// The `Idempotency-Key` was used with another request.
    IdempotencyConflict = "idempotency_conflict", 409, Conflict;
    /// The task has already ended.
    TaskNotCancellable = "task_not_cancellable", 409, Conflict;
    /// The video is not finished.
    VideoNotReady = "video_not_ready", 409, Conflict;
    /// The media URL has expired, or the file was removed.
    LinkExpired = "link_expired", 410, NotFound;
    /// The body is larger than the limit in the message.
    BodyTooLarge = "body_too_large", 413, InvalidRequest;
    /// The account has used up its `storage_limit`.
    StorageFull = "storage_full", 413, InvalidRequest;
    /// The endpoint does not accept this media type.
    UnsupportedMediaType = "unsupported_media_type", 415, InvalidRequest;
    /// The range asked for lies outside the file.
    RangeNotSatisfiable = "range_not_satisfiable", 416, InvalidRequest;
    /// The picture could not be fetched from its URL.
    ImageFetchFailed = "image_fetch_failed", 422, Media;
    /// Fetching the picture's URL is not allowed.
    ImageFetchBlocked = "image_fetch_blocked", 422, Media;
    /// The picture cannot be read.
    ImageInvalid = "image_invalid", 422, Media;
    /// The picture is over a limit.
    ImageTooLarge = "image_too_large", 422, Media;
    /// The audio could not be fetched from its URL.
    AudioFetchFailed = "audio_fetch_failed", 422, Media;
    /// Fetching the audio's URL is not allowed.
    AudioFetchBlocked = "audio_fetch_blocked", 422, Media;
    /// The audio cannot be read.
    AudioInvalid = "audio_invalid", 422, Media;
    /// The audio is longer than the limit.
    AudioTooLong = "audio_too_long", 422, Media;
    /// The model's provider refuses to make this content.
    ContentPolicy = "content_policy", 422, Provider;
    /// The model's provider refuses the request.
    ProviderRejected = "provider_rejected", 422, Provider;
    /// It is not known whether the provider accepted the order; nothing is charged or sent twice.
    SubmissionUnconfirmed = "submission_unconfirmed", 424, Provider;
    /// The task was cancelled while the caller waited for it.
    TaskCancelled = "cancelled", 409, Conflict;
    /// The key's requests per minute are used up.
    RateLimitExceeded = "rate_limit_exceeded", 429, RateLimit;
    /// The key has reached its limit of open tasks.
    TooManyTasks = "too_many_tasks", 429, RateLimit;
    /// Internal error; the log has the details under the request id.
    InternalError = "internal_error", 500, Server;
    /// Every route to the model is down, or no provider accepted the job.
    ProviderUnavailable = "provider_unavailable", 503, Provider;
    /// The provider accepted the job, but it failed.
    GenerationFailed = "generation_failed", 503, Provider;
    /// The wait timed out; the task continues.
    StillRunning = "still_running", 503, Server;
    /// The gateway is at capacity.
    Overloaded = "overloaded", 503, Server;
    /// The process is shutting down.
    ShuttingDown = "shutting_down", 503, Server;
}

impl ErrorCode {
    /// The code of a name, as tasks keep it.
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

/// The family of an error, `type` in its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request is wrong in itself.
    InvalidRequest,
    /// Who asks is not known.
    Authentication,
    /// Who asks may not.
    Permission,
    /// What is asked for is not there.
    NotFound,
    /// What is asked for does not fit the present state.
    Conflict,
    /// The money does not suffice.
    Budget,
    /// Too many, too fast.
    RateLimit,
    /// A picture or a recording cannot be used.
    Media,
    /// The model or its provider.
    Provider,
    /// This gateway.
    Server,
}

impl ErrorKind {
    /// The name that callers see.
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

/// One thing wrong with a request's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// One of the five codes of a malformed or impossible request.
    pub code: ErrorCode,
    /// Path of the field, such as `messages[0].content`.
    pub param: String,
    /// A sentence for the caller, without the path.
    pub message: String,
}

/// Everything that a request can end with instead of an answer.
#[derive(Debug)]
pub enum Error {
    /// The body is wrong in these places, at least one.
    Invalid(Vec<Fault>),
    /// A fault without a place in the body, or one whose code says it all.
    Plain {
        /// What kind of fault.
        code: ErrorCode,
        /// A sentence for the caller.
        message: String,
        /// Path of the field, where one applies.
        param: Option<String>,
    },
    /// A retry can mend it, after this many seconds.
    Later {
        /// One of the codes with status 429, 500 or 503.
        code: ErrorCode,
        /// A sentence for the caller.
        message: String,
        /// Seconds to wait before the retry.
        retry_after: u32,
    },
    /// An error about a task that exists.
    OfTask {
        /// The task.
        task: TaskId,
        /// What went wrong.
        error: Box<Error>,
    },
    /// The database does not answer, or cannot take what is to be written.
    Away {
        /// What the log should know of it.
        inside: Box<dyn StdError + Send + Sync>,
        /// Whether something may have been written all the same.
        is_open: bool,
    },
    /// Whoever asked has left, and nothing was made: its next try may have been
    /// served meanwhile.
    CallerLeft,
    /// A surprise; the caller learns only that it happened.
    Internal(Box<dyn StdError + Send + Sync>),
}

impl Error {
    /// A fault without a place in the body.
    pub fn plain(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Plain {
            code,
            message: message.into(),
            param: None,
        }
    }

    /// A fault at one place in the body.
    pub fn at(code: ErrorCode, param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Plain {
            code,
            message: message.into(),
            param: Some(param.into()),
        }
    }

    /// A fault that a retry can mend.
    pub fn later(code: ErrorCode, message: impl Into<String>, retry_after: u32) -> Self {
        Self::Later {
            code,
            message: message.into(),
            retry_after,
        }
    }

    /// Names the task that the error is about.
    #[must_use]
    pub fn of_task(self, task: TaskId) -> Self {
        Self::OfTask {
            task,
            error: Box::new(self),
        }
    }

    /// A surprise, with what the log should know of it.
    pub fn internal(inside: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Internal(inside.into())
    }

    /// The database is away; `is_open` where something may have been written.
    pub fn away(inside: impl Into<Box<dyn StdError + Send + Sync>>, is_open: bool) -> Self {
        Self::Away {
            inside: inside.into(),
            is_open,
        }
    }

    /// Whether something may have been written although it failed.
    pub fn leaves_open(&self) -> bool {
        match self {
            Self::Internal(_) => true,
            Self::Away { is_open, .. } => *is_open,
            Self::OfTask { error, .. } => error.leaves_open(),
            Self::Invalid(_) | Self::Plain { .. } | Self::Later { .. } | Self::CallerLeft => false,
        }
    }

    /// The process is going down; another one, or the next, will serve.
    pub fn shutting_down() -> Self {
        Self::later(
            ErrorCode::ShuttingDown,
            "The service is restarting. Try again in a moment.",
            2,
        )
    }

    /// The stable code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Invalid(faults) => faults
                .first()
                .map_or(ErrorCode::InvalidValue, |fault| fault.code),
            Self::Plain { code, .. } | Self::Later { code, .. } => *code,
            Self::OfTask { error, .. } => error.code(),
            Self::Away { .. } | Self::CallerLeft => ErrorCode::Overloaded,
            Self::Internal(_) => ErrorCode::InternalError,
        }
    }

    /// What the caller is told.
    pub fn message(&self) -> String {
        match self {
            Self::Invalid(faults) => told(faults),
            Self::Plain { message, .. } | Self::Later { message, .. } => message.clone(),
            Self::OfTask { error, .. } => error.message(),
            Self::Away { .. } => {
                "The gateway's database does not answer in time. Try again in a moment.".to_owned()
            }
            Self::CallerLeft => "The caller left before anything was made.".to_owned(),
            Self::Internal(_) => {
                "Something went wrong inside the gateway. Report the request id if it happens again.".to_owned()
            }
        }
    }

    /// The path of the first field at fault.
    pub fn param(&self) -> Option<&str> {
        match self {
            Self::Invalid(faults) => faults
                .first()
                .map(|f| f.param.as_str())
                .filter(|param| !param.is_empty()),
            Self::Plain { param, .. } => param.as_deref(),
            Self::OfTask { error, .. } => error.param(),
            Self::Later { .. } | Self::Away { .. } | Self::CallerLeft | Self::Internal(_) => None,
        }
    }

    /// Seconds after which a retry makes sense; set exactly when the code is retryable.
    pub fn retry_after(&self) -> Option<u32> {
        match self {
            Self::Later { retry_after, .. } => Some(*retry_after),
            Self::OfTask { error, .. } => error.retry_after(),
            Self::Invalid(_)
            | Self::Plain { .. }
            | Self::Away { .. }
            | Self::CallerLeft
            | Self::Internal(_) => self.code().retryable().then_some(2),
        }
    }

    /// The task that the error is about.
    pub fn task(&self) -> Option<TaskId> {
        match self {
            Self::OfTask { task, .. } => Some(*task),
            _ => None,
        }
    }

    /// What only the log may see.
    pub fn inside(&self) -> Option<&(dyn StdError + Send + Sync + 'static)> {
        match self {
            Self::Away { inside, .. } | Self::Internal(inside) => Some(inside.as_ref()),
            Self::OfTask { error, .. } => error.inside(),
            _ => None,
        }
    }
}

/// The first faults, and how many more there are.
fn told(faults: &[Fault]) -> String {
    const TOLD: usize = 20;
    let told = faults.iter().take(TOLD).map(|fault| {
        if fault.param.is_empty() {
            fault.message.clone()
        } else {
            format!("{}: {}", fault.param, fault.message)
        }
    });
    let mut told: Vec<String> = told.collect();
    if faults.len() > TOLD {
        told.push(format!("And {} more.", faults.len() - TOLD));
    }
    told.join(" ")
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code(), self.message())
    }
}

impl StdError for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_codes() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_name(code.name()), Some(*code));
        }
    }

    #[test]
    fn a_retry_is_advised_exactly_where_it_can_help() {
        for code in ErrorCode::ALL {
            let advised = Error::plain(*code, "").retry_after().is_some();
            assert_eq!(advised, matches!(code.status(), 429 | 500 | 503), "{code}");
        }
    }

    #[test]
    fn all_faults_are_named_and_the_first_is_the_param() {
        let fault = |param: &str| Fault {
            code: ErrorCode::MissingField,
            param: param.into(),
            message: "is required.".into(),
        };
        let error = Error::Invalid(vec![fault("model"), fault("messages")]);
        assert_eq!(
            error.message(),
            "model: is required. messages: is required."
        );
        assert_eq!(error.param(), Some("model"));
    }

    #[test]
    fn of_many_faults_twenty_are_named() {
        let fault = |number| Fault {
            code: ErrorCode::MissingField,
            param: format!("a[{number}]"),
            message: "is required.".into(),
        };
        let error = Error::Invalid((0..16_000).map(fault).collect());
        let message = error.message();
        assert_eq!(message.matches("is required.").count(), 20);
        assert!(message.ends_with("And 15980 more."), "{message}");
    }

    #[test]
    fn the_inside_of_an_error_stays_inside() {
        let error = Error::internal("password=hunter2").of_task(TaskId::new());
        assert!(!error.to_string().contains("hunter2"));
        assert!(error.inside().is_some());
    }
}
