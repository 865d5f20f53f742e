//! Tests of finding the job of a lost submission with a recipe.

use super::*;
use crate::adapters::tests::{look_up, since};
use crate::port::MatchCertainty;

/// The shortest recipe with a submission that contains the key, and a way to search for it.
fn adapter_with_find(find: &str) -> Arc<dyn Adapter> {
    let recipe = short_recipe_with(
        "prompt = \"{prompt}\"",
        "prompt = \"{prompt}\"\nref = \"{key}\"",
    );
    adapter_of(&format!("{recipe}[find]\n{find}")).unwrap()
}

fn kept_values(page: &LookupPage) -> Vec<&Value> {
    let jobs = page.jobs.iter();
    jobs.map(|job| &job.handle.0["kept"]["id"]).collect()
}

#[test]
fn a_job_may_be_asked_for_by_the_key() {
    let adapter = adapter_with_find("path = \"/jobs/by-ref/{key}\"");
    let order = video("m");
    let call = adapter.find(&order, since()).unwrap();
    assert_eq!(
        call.target,
        CallTarget::Path("/jobs/by-ref/0197-key".into())
    );
    assert_eq!(call.effect, CallEffect::Free);
    let existing = look_up(adapter.as_ref(), &order, 200, &json!({"id": "j"})).unwrap();
    assert_eq!(kept_values(&existing), ["j"]);
    assert_eq!(existing.jobs[0].identity, MatchCertainty::Certain);
    let gone = look_up(adapter.as_ref(), &order, 404, &json!({})).unwrap();
    assert_eq!(gone.jobs, []);
    // There is a job, but without an id.
    let without_id = look_up(adapter.as_ref(), &order, 200, &json!({"status": "running"})).unwrap();
    assert_eq!(without_id.jobs, []);
    assert!(look_up(adapter.as_ref(), &order, 500, &json!({})).is_err());
}

#[test]
fn a_list_may_repeat_the_key() {
    let adapter = adapter_with_find(
        "path = \"/jobs\"\nitems = \"\"\nreference = \"/ref\"\nkeep = { id = \"/job/id\" }\ncreated_at = \"/at\"\nnext = \"/0/ref\"\nnext_query = \"after\"",
    );
    let order = video("m");
    let first = adapter.find(&order, since()).unwrap();
    assert!(first.query.is_empty());
    let all = json!([{"ref": "another", "job": {"id": 1}}, {"ref": "0197-key", "job": {"id": 2}, "at": 5}]);
    let lookup = look_up(adapter.as_ref(), &order, 200, &all).unwrap();
    assert_eq!(kept_values(&lookup), [2]);
    assert!(lookup.jobs[0].created_at.is_some());
    let next = lookup.next.unwrap();
    assert_eq!(next.query, [("after".into(), "another".into())]);
    let last = look_up(adapter.as_ref(), &order, 200, &json!([])).unwrap();
    assert!(last.next.is_none());
    let error = look_up(adapter.as_ref(), &order, 200, &json!({})).unwrap_err();
    assert_eq!(error.class, ErrorClass::Unclear);
    // A missing list is not the same as a list without the job.
    assert!(look_up(adapter.as_ref(), &order, 404, &json!({})).is_err());
}

#[test]
fn a_list_may_repeat_the_content() {
    let adapter_with_pages = |pages: &str| {
        adapter_with_find(&format!(
            "path = \"/jobs\"\nquery = {{ limit = \"2\" }}\nitems = \"/jobs\"\nprompt = \"/in/prompt\"\nmodel = \"/in/model\"\ncreated_at = \"/at\"\n{pages}"
        ))
    };
    let order = video("m");
    let job = |id: &str, model: &str, at: u64| {
        let content = json!({"prompt": "a lighthouse in a storm", "model": model});
        json!({"id": id, "in": content, "at": at})
    };
    let jobs = json!([
        job("a", "m", 1_700_000_005),
        job("b", "n", 1_700_000_005),
        job("c", "m", 5)
    ]);
    let body = json!({"jobs": jobs, "more": true, "next": "https://x.example/jobs?mark=7"});
    let page =
        |pages: &str| look_up(adapter_with_pages(pages).as_ref(), &order, 200, &body).unwrap();
    let lookup = page("");
    assert_eq!(kept_values(&lookup), ["a"]);
    assert_eq!(
        (lookup.jobs[0].identity, lookup.next.is_none()),
        (MatchCertainty::Likely, true)
    );
    let next = page("next = \"/next\"\nmore = \"/more\"").next.unwrap();
    assert_eq!(
        next.target,
        CallTarget::Address("https://x.example/jobs?mark=7".into())
    );
    assert!(next.query.is_empty());
    let next = page("next = \"/jobs/2/id\"\nnext_query = \"after\"")
        .next
        .unwrap();
    assert_eq!(next.target, CallTarget::Path("/jobs".into()));
    assert_eq!(
        next.query,
        [("limit".into(), "2".into()), ("after".into(), "c".into())]
    );
    assert!(page("next = \"/next\"\nmore = \"/less\"").next.is_none());
}

#[test]
fn an_unusable_find_table_is_explained() {
    for (find, expected) in [
        (
            "path = \"/jobs\"\nitems = \"/jobs\"",
            "must set where a job contains",
        ),
        (
            "path = \"/jobs\"\nitems = \"/jobs\"\nprompt = \"/p\"",
            "must set where a job contains",
        ),
        (
            "path = \"/jobs\"\nitems = \"/jobs\"\nreference = \"/ref\"",
            "does not send it",
        ),
        ("path = \"/jobs/{key}\"", "does not send it"),
        ("path = \"/jobs/{id}\"", "is not a value here"),
        (
            "path = \"/jobs\"\nprompt = \"/p\"\nmodel = \"/m\"\nnext = \"/n\"",
            "no list (items)",
        ),
        (
            "path = \"/jobs\"\nitems = \"\"\nprompt = \"/p\"\nmodel = \"/m\"\nnext_query = \"after\"",
            "next_query requires next",
        ),
        (
            "path = \"/jobs\"\nitems = \"\"\nprompt = \"/p\"\nmodel = \"/m\"\nkeep = { uid = \"/id\" }",
            "id is in [submit.keep]",
        ),
        ("path = \"/jobs\"\nitem = \"\"", "did you mean \"items\"?"),
    ] {
        let (line, message) = fault(&format!("{SHORT}[find]\n{find}"));
        assert!(message.contains(expected), "{find}: {message}");
        assert!(line > SHORT.lines().count(), "{find}: line {line}");
    }
}
