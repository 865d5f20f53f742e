//! Query parameters of every operation: known ones are read, any other is refused.

use mediagate_core::domain::keys::NewKey;
use mediagate_model::account::Scope;
use reqwest::{Method, header};
use serde_json::Value;

use crate::support::{Answer, Client, TestGateway, schema};

/// An operation of the document, with `x` for each parameter of its path.
struct Operation {
    method: Method,
    path: String,
    /// The names of its query parameters.
    parameters: Vec<&'static str>,
}

fn operations() -> Vec<Operation> {
    let mut operations = Vec::new();
    for (template, item) in schema::document()["paths"].as_object().unwrap() {
        let parts = template.split('/').map(|part| match part {
            "{handle}" => "default",
            part if part.starts_with('{') => "x",
            part => part,
        });
        let path = parts.collect::<Vec<_>>().join("/");
        for (method, operation) in item.as_object().unwrap() {
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let parameters = parameters.filter(|parameter| parameter["in"] == "query");
            operations.push(Operation {
                method: method.to_uppercase().parse().unwrap(),
                path: path.clone(),
                parameters: parameters
                    .map(|parameter| parameter["name"].as_str().unwrap())
                    .collect(),
            });
        }
    }
    operations
}

impl Operation {
    async fn send(&self, caller: &Client, query: &str) -> Answer {
        let path = format!("{}?{query}", self.path);
        caller
            .send(caller.request(self.method.clone(), &path))
            .await
    }
}

async fn gateway_and_operator() -> (TestGateway, Client) {
    let gateway = TestGateway::builder().without_workers().start().await;
    let key = NewKey {
        scopes: Scope::ALL.to_vec(),
        rpm: Some(10_000),
        ..NewKey::default()
    };
    let operator = gateway.caller("default", key).await;
    (gateway, operator)
}

#[tokio::test]
async fn an_unknown_parameter_is_refused_by_every_operation() {
    let (gateway, operator) = gateway_and_operator().await;
    let operations = operations();
    assert!(operations.len() > 60, "{}", operations.len());
    for operation in &operations {
        let subject = format!("{} {}", operation.method, operation.path);
        let answer = operation.send(&operator, "mediagate_unknown=1").await;
        assert_eq!(answer.status, 400, "{subject}: {}", answer.text());
        answer
            .refused(400, "unsupported_value")
            .on_param("mediagate_unknown");
        for name in &operation.parameters {
            assert!(answer.message().contains(name), "{subject}: {name}");
        }
        if operation.parameters.is_empty() {
            assert!(
                answer.message().contains("no query parameters"),
                "{subject}"
            );
        }
    }
    gateway.stop().await;
}

/// Every operation reads each parameter that the document names: no text may contain NUL, and no
/// number or flag is one.
#[tokio::test]
async fn every_documented_parameter_is_read() {
    let (gateway, operator) = gateway_and_operator().await;
    let mut count = 0;
    for operation in operations() {
        for &name in &operation.parameters {
            let subject = format!("{} {} {name}", operation.method, operation.path);
            let answer = operation.send(&operator, &format!("{name}=%00")).await;
            assert!(!answer.text().contains("Unknown parameter"), "{subject}");
            // `?verbose` counts with any value.
            if name != "verbose" {
                assert_eq!(answer.status, 400, "{subject}: {}", answer.text());
                answer.on_param(name);
            }
            count += 1;
        }
    }
    assert!(count > 70, "{count}");
    gateway.stop().await;
}

#[tokio::test]
async fn the_nearest_parameter_is_named_first() {
    let (gateway, operator) = gateway_and_operator().await;
    for (path, nearest) in [
        ("/v1/tasks?stauts=failed", "status"),
        ("/v1/admin/tasks?ordr=asc", "order"),
        ("/v1/admin/keys?acount=owls", "account"),
        ("/v1/videos?Limit=1", "limit"),
    ] {
        let answer = operator.get(path).await;
        answer.refused(400, "unsupported_value");
        let names = format!("The known parameters are: {nearest}, ");
        assert!(answer.message().contains(&names), "{}", answer.message());
    }
    gateway.stop().await;
}

/// The order of checks: a key, its scope, then the query. Nothing is made.
#[tokio::test]
async fn a_query_is_looked_at_after_the_key() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let stranger = gateway.without_key();
    for path in ["/v1/account?a=1", "/v1/tasks?a=1", "/metrics?a=1"] {
        stranger.get(path).await.refused(401, "missing_api_key");
    }
    let order = crate::support::videos_order();
    let refused = gateway.post("/v1/videos?seconds=4", &order).await;
    refused
        .refused(400, "unsupported_value")
        .on_param("seconds");
    assert_eq!(
        gateway.get("/v1/tasks").await.ok()["data"],
        Value::Array(vec![])
    );
    let key = NewKey {
        scopes: vec![Scope::TasksRead],
        ..NewKey::default()
    };
    let reader = gateway.caller("default", key).await;
    reader
        .post("/v1/videos?a=1", &order)
        .await
        .refused(403, "insufficient_scope");
    gateway.stop().await;
}

/// Other sites add parameters to links that people share.
#[tokio::test]
async fn a_browser_opens_a_public_page_with_any_parameter() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let anyone = gateway.without_key();
    let open = async |path: &str, accept: &str| {
        let request = anyone.request(Method::GET, path);
        anyone
            .send(request.header(header::ACCEPT, accept))
            .await
            .status
    };
    let page = "text/html,application/xhtml+xml,*/*;q=0.8";
    assert_eq!(open("/pricing?utm_source=news", page).await, 200);
    assert_eq!(
        open("/pricing?utm_source=news", "application/json").await,
        400
    );
    for path in ["/pricing.json", "/openapi.json", "/healthz", "/readyz"] {
        let path = format!("{path}?utm_source=news");
        assert_eq!(open(&path, "*/*").await, 400, "{path}");
    }
    assert_eq!(open("/openapi.json", "*/*").await, 200);
    assert_eq!(open("/openapi.json?utm_source=news", page).await, 200);
    assert_eq!(open("/docs?q=key&utm_source=news", page).await, 200);
    gateway.stop().await;
}
