//! Creating a persona at the provider that made its clips, so that it can be used there.

use providers::driver::{OrderAcceptance, ProgressWatch, SubmitError};
use providers::order::{PersonaSpec, WorkSpec};
use providers::{ErrorClass, ModelLimits, Order, OutputKind, ProviderError};

use crate::app::App;
use crate::crash;
use crate::domain::personas::NewPersona;
use crate::intents::IntentRecord;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::SubmissionId;
use mediagate_model::music::{Clip, ClipUpstream, PersonaUpstream};
use mediagate_telemetry::counters;

/// Creates the persona where its root clip was made. If that was not at a provider with personas,
/// the persona exists only here.
///
/// The order is on disk before it is sent; after a crash it is not sent again.
pub(super) async fn create(
    app: &App,
    record: &IntentRecord,
    new: &NewPersona,
    clips: &[Clip],
) -> Result<Option<PersonaUpstream>, Error> {
    let Some(root) = clips.first().and_then(|clip| clip.upstream.as_ref()) else {
        return Ok(None);
    };
    let sites = app.models.upstream.sites();
    let Some(site) = sites.get(&root.provider) else {
        return Ok(None);
    };
    let limits = site
        .provider
        .adapter()
        .limits(providers::MediaKind::Music, &root.model_name);
    if !matches!(limits, Some(ModelLimits::Music(music)) if music.personas) {
        return Ok(None);
    }
    // At the provider, clips belong to the account of the credential. With another credential the
    // provider does not know the root clip.
    let Some(credential) = site.credential(&root.credential) else {
        return Ok(None);
    };
    let order = Order {
        idempotency_key: SubmissionId::new().to_string(),
        model: root.model_name.clone(),
        work: WorkSpec::Persona(persona(new, root, clips)),
        extra: serde_json::Map::new(),
    };
    let submission = app
        .models
        .upstream
        .driver
        .submit(
            &site.provider,
            &credential.secret,
            &order,
            &ProgressWatch::default(),
            async || {
                // On disk before the request is sent, so that it is not sent again after a crash.
                // Fails if another request has taken over the intent.
                record.mark_sent(true).await?;
                crash::point("persona-intended");
                // It may be sent only while this process counts as alive. After that, other
                // processes may act for its callers.
                Ok::<_, Error>(app.server.send_before())
            },
        )
        .await;
    crash::point("persona-sent");
    let outputs = match submission {
        Ok(OrderAcceptance::Done(outputs)) => outputs,
        Ok(OrderAcceptance::Job { .. }) => {
            return Err(Error::internal(
                "the provider answered the order of a persona with a job",
            ));
        }
        Err(error) => {
            let error = match error {
                // The provider is a gateway that does not know either.
                SubmitError::Failed(error) if error.class == ErrorClass::Unconfirmed => {
                    SubmitError::Unclear(error)
                }
                error => error,
            };
            // Provably nothing was made: the mark is removed, so that a repetition may try again.
            if !matches!(error, SubmitError::Unclear(_))
                && let Err(error) = record.mark_sent(false).await
            {
                // The mark stays, so for a while the answer to a repetition is that the outcome is
                // unknown.
                tracing::warn!(inside = ?error.internal_cause(), "cannot record the failure of a persona");
            }
            return Err(creation_error(&root.provider, error));
        }
    };
    let id = outputs.into_iter().find_map(|output| match output.kind {
        OutputKind::Persona { id, .. } => Some(id),
        _ => None,
    });
    let persona_id = id.ok_or_else(|| Error::internal("the provider names no persona"))?;
    Ok(Some(PersonaUpstream {
        provider: root.provider.clone(),
        credential: credential.id.clone(),
        persona_id,
    }))
}

/// Only clips made by this provider with this credential are known there.
fn persona(new: &NewPersona, root: &ClipUpstream, clips: &[Clip]) -> PersonaSpec {
    let provider_clips = clips.iter().filter_map(|clip| clip.upstream.as_ref());
    let provider_clips = provider_clips
        .filter(|clip| clip.provider == root.provider && clip.credential == root.credential);
    PersonaSpec {
        root_clip: root.clip_id.clone(),
        root_job: root.task_id.clone(),
        clips: provider_clips.map(|clip| clip.clip_id.clone()).collect(),
        name: new.name.clone(),
        description: new.description.clone(),
        is_public: new.is_public,
    }
}

fn creation_error(provider: &str, error: SubmitError<Error>) -> Error {
    let error = match error {
        SubmitError::Intent(error) => return error,
        SubmitError::TooLate => {
            let message =
                "The gateway was suspended before it could send the request to the provider.";
            return Error::retry_later(ErrorCode::Overloaded, message, 5);
        }
        SubmitError::Unclear(error) => {
            // No task and no submission records this, so this line and the counter are all that the
            // operator has.
            counters::submission_unconfirmed();
            tracing::error!(provider, why = %error.message, "submission of a persona unconfirmed");
            let message =
                "It is unknown whether the provider created the persona. Nothing was charged.";
            return Error::plain(ErrorCode::SubmissionUnconfirmed, message);
        }
        SubmitError::BeforeSubmission(error)
        | SubmitError::Refused(error)
        | SubmitError::Failed(error) => error,
    };
    tracing::warn!(provider, class = error.class.name(), message = %error.message, "provider did not create the persona");
    let ProviderError { class, message, .. } = error;
    match class {
        ErrorClass::Refused => Error::plain(ErrorCode::ContentPolicy, message),
        ErrorClass::Rejected | ErrorClass::Unfit => {
            Error::plain(ErrorCode::ProviderRejected, message)
        }
        _ => Error::retry_later(
            ErrorCode::ProviderUnavailable,
            "The provider that made the clip cannot create personas at the moment.",
            5,
        ),
    }
}
