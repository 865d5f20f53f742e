//! Tests of errors and their codes.

use super::*;

#[test]
fn codes_are_found_by_their_names() {
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
fn asking_again_for_what_a_failed_task_did_not_make_is_never_advised() {
    for code in ErrorCode::ALL {
        let message = String::new();
        let error = Error::NotMade {
            code: *code,
            message,
        };
        let error = error.with_task(TaskId::new());
        assert_eq!(error.code(), *code);
        assert!(!error.retryable(), "{code}");
        let status = if code.retryable() { 409 } else { code.status() };
        assert_eq!(error.status(), status, "{code}");
    }
}

#[test]
fn all_faults_are_named_and_the_first_is_the_param() {
    let fault = |param: &str| FieldError {
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
    let fault = |number| FieldError {
        code: ErrorCode::MissingField,
        param: format!("a[{number}]"),
        message: "is required.".into(),
    };
    let message = Error::Invalid((0..16_000).map(fault).collect()).message();
    assert_eq!(message.matches("is required.").count(), 20);
    assert!(message.ends_with("And 15980 more."), "{message}");
}

#[test]
fn the_cause_of_an_error_is_not_shown() {
    let error = Error::internal("password=hunter2").with_task(TaskId::new());
    assert!(!error.to_string().contains("hunter2"));
    assert!(error.internal_cause().is_some());
}
