//! Sessions: a key exchanged for a cookie.

use reqwest::Method;
use serde_json::{Value, json};

use super::{operator, start};
use crate::support::{Answer, Client, TestGateway, eventually, videos_order};
use mediagate::domain::keys::NewKey;
use mediagate::model::account::Scope;

/// Somebody who has signed in.
struct Page {
    client: Client,
    cookie: String,
    csrf: String,
}

impl Page {
    async fn sign_in(client: &Client) -> Self {
        let begun = client
            .send(client.request(Method::POST, "/v1/session"))
            .await;
        let set = begun.header("set-cookie").unwrap().to_owned();
        for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"] {
            assert!(set.contains(part), "{set}");
        }
        let session = begun.ok();
        Self {
            client: client.without_key(),
            cookie: set.split(';').next().unwrap().to_owned(),
            csrf: session["csrf_token"].as_str().unwrap().to_owned(),
        }
    }

    async fn send(&self, method: Method, path: &str, body: &Value, csrf: Option<&str>) -> Answer {
        let mut request = self
            .client
            .request(method, path)
            .header("cookie", &self.cookie);
        if let Some(csrf) = csrf {
            request = request.header("x-csrf-token", csrf);
        }
        if !body.is_null() {
            request = request.json(body);
        }
        self.client.send(request).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &Value::Null, None).await
    }

    async fn write(&self, method: Method, path: &str, body: &Value) -> Answer {
        self.send(method, path, body, Some(&self.csrf)).await
    }
}

#[tokio::test]
async fn the_cookie_works_where_the_key_does_until_it_ends() {
    for postgres in [false, true] {
        let (_gateway, operator) = start(postgres).await;
        let page = Page::sign_in(&operator).await;
        let session = page.get("/v1/session").await.ok();
        assert_eq!(
            (&session["csrf_token"], &session["scopes"]),
            (&json!(page.csrf), &json!(["admin"]))
        );
        page.get("/v1/admin/keys").await.ok();
        page.write(Method::POST, "/v1/videos", &videos_order())
            .await
            .ok();
        let made = page
            .write(Method::POST, "/v1/admin/keys", &json!({"name": "k"}))
            .await
            .ok();
        assert!(made["key"].is_string());
        for csrf in [None, Some("wrong")] {
            let refused = page
                .send(Method::POST, "/v1/videos", &videos_order(), csrf)
                .await;
            refused.refused(403, "csrf_token_required");
            let refused = page
                .send(Method::DELETE, "/v1/session", &Value::Null, csrf)
                .await;
            refused.refused(403, "csrf_token_required");
        }
        // A session does not beget another.
        let more = page.write(Method::POST, "/v1/session", &Value::Null).await;
        more.refused(401, "missing_api_key");
        let ended = page
            .write(Method::DELETE, "/v1/session", &Value::Null)
            .await;
        assert!(ended.header("set-cookie").unwrap().contains("Max-Age=0"));
        ended.ok();
        eventually("the session has ended", async || {
            let answer = page.get("/v1/tasks").await;
            (answer.json["error"]["code"] == "expired_api_key").then_some(())
        })
        .await;
        operator
            .get("/v1/session")
            .await
            .refused(401, "missing_api_key");
    }
}

#[tokio::test]
async fn a_session_has_the_rights_of_its_key_and_ends_with_it() {
    let gateway = TestGateway::builder()
        .without_workers()
        .manual_clock()
        .start()
        .await;
    let weak = NewKey {
        scopes: vec![Scope::TasksRead],
        ..NewKey::default()
    };
    let weak = gateway.caller("owls", weak).await;
    let page = Page::sign_in(&weak).await;
    page.get("/v1/tasks").await.ok();
    page.get("/v1/admin/keys")
        .await
        .refused(403, "insufficient_scope");
    let staff = operator(&gateway).await;
    let id = page.get("/v1/session").await.ok()["key_id"].clone();
    let path = format!("/v1/admin/keys/{}", id.as_str().unwrap());
    let rotated = staff.post(&format!("{path}/rotate"), &json!({})).await.ok();
    page.get("/v1/tasks").await.refused(401, "expired_api_key");
    let weak = gateway.with_key(rotated["key"].as_str().unwrap());
    let page = Page::sign_in(&weak).await;
    staff.delete(&path).await.ok();
    page.get("/v1/tasks").await.refused(401, "revoked_api_key");
    let page = Page::sign_in(&staff).await;
    gateway
        .app
        .clock
        .advance(std::time::Duration::from_hours(12));
    page.get("/v1/tasks").await.refused(401, "expired_api_key");
    let wrong = Page {
        cookie: "other=1; mediagate_session=x".into(),
        ..page
    };
    wrong.get("/v1/tasks").await.refused(401, "expired_api_key");
}
