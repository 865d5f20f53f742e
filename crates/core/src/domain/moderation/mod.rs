//! Moderation of orders: the operator's checks of their texts and pictures, before anything is held
//! or sent. Every verdict is logged and counted.

mod inputs;
mod services;
mod verdicts;

use moderation::PolicyFinding;

use crate::app::App;
use crate::caches::RefusedContent;
use crate::domain::assets::sha256_hex;
use crate::moderation_client::ServiceFault;
use mediagate_config::{CheckKind, ModerationFallback};
use mediagate_model::account::Caller;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::{RequestId, TaskId};
use mediagate_telemetry::counters;

pub use inputs::{InputContent, OrderInput, of_persona, of_separation, of_song, of_video};
pub use verdicts::{CountedVerdicts, counts, forget_old};

/// The category of content that no check could judge.
const UNCHECKED: &str = "unchecked";

/// The order whose inputs are checked.
#[derive(Debug, Clone, Copy)]
pub struct OrderSubject<'a> {
    /// The id that its first task will have; `None` for a persona.
    pub task: Option<TaskId>,
    pub request: Option<&'a RequestId>,
    /// `video`, `music` or `persona`.
    pub kind: &'static str,
    /// The model; empty for a persona.
    pub model: &'a str,
    /// The caller's id of its end user.
    pub user: Option<&'a str>,
    /// With this key, an order that was refused and is sent again is not judged a second time.
    pub idempotency_key: Option<&'a str>,
}

/// What a check says about an order.
#[derive(Debug, Clone)]
enum CheckOutcome {
    Allow,
    /// The check objects to the field `param`.
    Refuse {
        finding: PolicyFinding,
        param: String,
    },
    /// There is no verdict.
    Error(ServiceFault),
}

impl CheckOutcome {
    const fn name(&self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Refuse { .. } => "refuse",
            Self::Error(_) => "error",
        }
    }

    fn category(&self) -> Option<&str> {
        match self {
            Self::Allow => None,
            Self::Refuse { finding, .. } => Some(&finding.category),
            Self::Error(_) => Some(UNCHECKED),
        }
    }

    /// The refusal of the order, if this is one. `first_param` is the field to name if no check
    /// could judge.
    fn refusal(&self, fallback: ModerationFallback, first_param: &str) -> Option<RefusedContent> {
        match self {
            Self::Allow => None,
            Self::Error(_) if fallback == ModerationFallback::Allow => None,
            Self::Error(fault) => Some(RefusedContent {
                param: first_param.to_owned(),
                message: format!(
                    "The content could not be checked: {fault} (category {UNCHECKED:?}). Nothing was made or charged."
                ),
            }),
            Self::Refuse { finding, param } => {
                let reason = finding.reason.as_ref();
                let reason = reason.map_or_else(String::new, |reason| format!(" {reason}"));
                Some(RefusedContent {
                    param: param.clone(),
                    message: format!(
                        "This content is not allowed here (category {:?}).{reason} Nothing was made or charged.",
                        finding.category
                    ),
                })
            }
        }
    }
}

/// The outcome of one of the checks.
struct CheckVerdict {
    /// The number of the check in the settings, from 0.
    check: usize,
    protocol: &'static str,
    outcome: CheckOutcome,
}

/// The inputs of an order, if there are checks that need them.
pub fn inputs_for_checks(app: &App, list: impl FnOnce() -> Vec<OrderInput>) -> Vec<OrderInput> {
    if app.config.moderation.checks.is_empty() {
        Vec::new()
    } else {
        list()
    }
}

/// Refuses an order if a check objects to one of its inputs. The checks are asked in their order,
/// until one refuses.
pub async fn check_order(
    app: &App,
    caller: &Caller,
    subject: OrderSubject<'_>,
    inputs: &[OrderInput],
) -> Result<(), Error> {
    let rules = &app.config.moderation;
    let Some(first) = inputs.first().filter(|_| !rules.checks.is_empty()) else {
        return Ok(());
    };
    let repetition = subject
        .idempotency_key
        .map(|key| (caller.key.id, key.to_owned(), digest(inputs)));
    let known = repetition.as_ref();
    let known = known.and_then(|repetition| app.caches.refused_content.get(repetition));
    if let Some(refused) = known {
        return Err(refusal_error(refused));
    }
    let mut verdicts = Vec::new();
    let mut refusal = None;
    for (number, check) in rules.checks.iter().enumerate() {
        let outcome = judge(app, caller, &check.kind, subject, inputs).await?;
        let protocol = check.kind.protocol();
        counters::moderation_verdict(protocol, outcome.name());
        if let CheckOutcome::Error(fault) = &outcome {
            tracing::warn!(check = number, protocol, %fault, "a moderation check gave no verdict");
        }
        refusal = outcome.refusal(rules.on_error, &first.param);
        let is_final = matches!(outcome, CheckOutcome::Refuse { .. });
        verdicts.push(CheckVerdict {
            check: number,
            protocol,
            outcome,
        });
        if let Some(refused) = &refusal {
            // A service that gave no verdict is asked again.
            if let Some(repetition) = repetition.filter(|_| is_final) {
                let refusals = &app.caches.refused_content;
                refusals.insert(repetition, refused.clone());
            }
            break;
        }
    }
    verdicts::record(app, caller, subject, inputs, &verdicts).await?;
    match refusal {
        Some(refused) => Err(refusal_error(refused)),
        None => Ok(()),
    }
}

fn refusal_error(refused: RefusedContent) -> Error {
    Error::at_field(ErrorCode::ContentPolicy, refused.param, refused.message)
}

/// A digest of all inputs.
fn digest(inputs: &[OrderInput]) -> String {
    let parts: Vec<[&str; 2]> = inputs.iter().map(OrderInput::identity).collect();
    sha256_hex(format!("{parts:?}").as_bytes())
}

/// Asks one check.
async fn judge(
    app: &App,
    caller: &Caller,
    check: &CheckKind,
    subject: OrderSubject<'_>,
    inputs: &[OrderInput],
) -> Result<CheckOutcome, Error> {
    let account = caller.account.id;
    match check {
        CheckKind::Terms(list) => {
            let (list, texts) = (list.clone(), inputs::texts(inputs));
            let search = move || {
                texts.into_iter().find_map(|(param, text)| {
                    let category = list.find(&text)?;
                    Some((param, PolicyFinding::new(category)))
                })
            };
            let found = app.compute(search).await?;
            Ok(match found {
                Some((param, finding)) => CheckOutcome::Refuse { finding, param },
                None => CheckOutcome::Allow,
            })
        }
        CheckKind::OpenAi {
            url,
            api_key,
            model,
        } => {
            let service = services::OpenAiService {
                url,
                api_key: api_key.as_ref(),
                model,
            };
            services::ask_openai(app, account, &service, inputs).await
        }
        CheckKind::Webhook { url, secret } => {
            services::ask_webhook(app, account, (url, secret), subject, inputs).await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_field_and_category() {
        let outcome = CheckOutcome::Refuse {
            finding: PolicyFinding {
                reason: Some("Ask the desk.".to_owned()),
                ..PolicyFinding::new("minors")
            },
            param: "prompt".to_owned(),
        };
        let refused = outcome.refusal(ModerationFallback::Allow, "x").unwrap();
        let error = refusal_error(refused);
        assert_eq!(error.code(), ErrorCode::ContentPolicy);
        assert_eq!(error.param(), Some("prompt"));
        let message = error.message();
        assert!(
            message.contains("\"minors\"") && message.contains("Ask the desk."),
            "{message}"
        );
    }

    #[test]
    fn what_was_not_judged_is_refused_unless_the_settings_allow_it() {
        let outcome = CheckOutcome::Error(ServiceFault::Status(500));
        assert!(outcome.refusal(ModerationFallback::Allow, "x").is_none());
        let refused = outcome.refusal(ModerationFallback::Refuse, "x").unwrap();
        assert_eq!(refused.param, "x");
        assert!(
            refused.message.contains("status 500"),
            "{}",
            refused.message
        );
    }
}
