//! `POST /v1/provenance/check`: where a file comes from.

use std::net::IpAddr;

use axum::Json;
use axum::extract::{FromRequest as _, Request, State};
use tokio::sync::OwnedSemaphorePermit;

use crate::auth::{AllowedCaller, TasksRead, count_address, missing_key};
use crate::body::form::MultipartForm;
use crate::body::{JsonBody, is_multipart};
use crate::context::PublicRequest;
use crate::error::ErrorResponse;
use crate::orders::provenance::{CheckForm, CheckRequest, read};
use crate::uploads::{self, UPLOAD_TIMEOUT};
use crate::wire::provenance::CheckObject;
use mediagate_core::app::App;
use mediagate_core::domain::provenance::check::{self, LIMIT_BYTES};
use mediagate_core::domain::storage_room;
use mediagate_core::limits::QueuePermit;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::AccountId;

/// The caller of a check.
enum CheckCaller {
    /// One with a key.
    Account(AccountId),
    /// One without a key, if the operator allows that.
    Stranger(IpAddr),
}

impl CheckCaller {
    /// A caller with a key, or one without a key whose address has a check left.
    fn admit(
        app: &App,
        allowed: Option<&AllowedCaller<TasksRead>>,
        address: IpAddr,
    ) -> Result<Self, Error> {
        if let Some(allowed) = allowed {
            return Ok(Self::Account(allowed.caller.account.id));
        }
        if !app.config.provenance.public {
            return Err(missing_key());
        }
        let message = "Too many checks from this IP address. Use an API key for a higher limit.";
        count_address(&app.limits.address_checks, address, message)?;
        Ok(Self::Stranger(address))
    }

    /// The account for turns among accounts: all callers without a key share one.
    const fn queue_account(&self) -> AccountId {
        match self {
            Self::Account(account) => *account,
            Self::Stranger(_) => AccountId::nobody(),
        }
    }

    const fn account(&self) -> Option<AccountId> {
        match self {
            Self::Account(account) => Some(*account),
            Self::Stranger(_) => None,
        }
    }
}

/// The slot of a check, held until the check is over.
enum CheckSlot {
    OfAccount {
        _upload: Option<OwnedSemaphorePermit>,
    },
    OfAddress {
        _check: QueuePermit,
    },
}

impl CheckSlot {
    async fn wait(app: &App, caller: &CheckCaller) -> Self {
        match caller {
            CheckCaller::Account(account) => Self::OfAccount {
                _upload: app.limits.uploads.wait(*account).await,
            },
            // What strangers share is bounded by the slots that one address can hold.
            CheckCaller::Stranger(address) => Self::OfAddress {
                _check: app
                    .limits
                    .strangers_checks
                    .wait(AccountId::of_address(*address), 1)
                    .await,
            },
        }
    }
}

/// Check the provenance of a file: signatures, watermark, and matching results of this deployment.
///
/// Needs the scope `tasks:read`. If the operator set `provenance.public`, no key is needed.
#[utoipa::path(post, path = "/v1/provenance/check", tag = "provenance",
    request_body(content((CheckRequest = "application/json"), (CheckForm = "multipart/form-data"))),
    security((), ("bearer" = [])),
    responses((status = 200, description = "The result of the check", body = CheckObject)))]
pub(super) async fn check(
    allowed: Option<AllowedCaller<TasksRead>>,
    public: PublicRequest,
    State(app): State<App>,
    mut request: Request,
) -> Result<Json<CheckObject>, ErrorResponse> {
    let caller = CheckCaller::admit(&app, allowed.as_ref(), public.client)?;
    // The memory for reading bodies is divided among accounts; all callers without a key share one
    // part of it.
    request.extensions_mut().insert(caller.queue_account());
    // Checked before anything arrives, because the file is spooled to disk.
    storage_room::check_disk(&app)?;
    let _slot = CheckSlot::wait(&app, &caller).await;
    let file = if is_multipart(request.headers()) {
        let form = tokio::time::timeout(UPLOAD_TIMEOUT, read_upload(request, &app)).await;
        form.map_err(|_| {
            Error::plain(ErrorCode::InvalidValue, "The form did not arrive in time.")
        })??
    } else {
        let body = JsonBody::from_request(request, &app).await?;
        let (url, _memory) = body.read(&app, read).await?;
        check::fetch(&app, caller.queue_account(), &url).await?
    };
    let report = check::check(&app, caller.account(), caller.queue_account(), file).await?;
    Ok(Json(CheckObject::new(&report)))
}

async fn read_upload(request: Request, app: &App) -> Result<tempfile::TempPath, Error> {
    let mut form = MultipartForm::open(request, app, LIMIT_BYTES).await?;
    let mut file = None;
    while let Some(part) = form.next().await? {
        match part.name() {
            Some("file") if file.is_some() => return Err(uploads::second_file()),
            Some("file") => file = uploads::spool(part, app).await?,
            _ => part.skip().await?,
        }
    }
    let missing = || {
        let message = "The form must contain the file in the field \"file\".";
        Error::at_field(ErrorCode::MissingField, "file", message)
    };
    file.map(|(file, _)| file).ok_or_else(missing)
}
