//! The tasks of every account.

use serde_json::json;

use super::start;
use crate::support::videos_order;
use mediagate_core::domain::keys::NewKey;

#[tokio::test]
async fn the_tasks_of_every_account_are_listed() {
    for postgres in [false, true] {
        let (gateway, operator) = start(postgres).await;
        for handle in ["owls", "foxes"] {
            let caller = gateway.caller(handle, NewKey::default()).await;
            caller.post("/v1/videos", &videos_order()).await.ok();
        }
        let list = async |query: &str| {
            let page = operator.get(&format!("/v1/admin/tasks{query}")).await.ok();
            let data = page["data"].as_array().unwrap().clone();
            let accounts = data
                .iter()
                .map(|task| task["account"].as_str().unwrap().to_owned());
            accounts.collect::<Vec<_>>()
        };
        assert_eq!(list("").await, ["foxes", "owls"]);
        assert_eq!(list("?account=owls").await, ["owls"]);
        assert_eq!(list("?provider=embedded").await, ["foxes", "owls"]);
        assert_eq!(list("?account=owls&provider=embedded").await, ["owls"]);
        assert_eq!(list("?provider=acme").await, [""; 0]);
        assert_eq!(list("?status=queued&kind=video").await, ["foxes", "owls"]);
        assert_eq!(list("?status=failed").await, [""; 0]);
        assert_eq!(list("?provider=acme&kind=video").await, [""; 0]);
        // The search covers every account.
        let query = videos_order()["prompt"]
            .as_str()
            .unwrap()
            .replace(' ', "%20");
        assert_eq!(list(&format!("?q={query}")).await, ["foxes", "owls"]);
        assert_eq!(list(&format!("?q={query}&account=owls")).await, ["owls"]);
        assert_eq!(list(&format!("?q={query}&limit=1")).await, ["foxes"]);
        assert_eq!(list("?q=nothing-has-these-words").await, [""; 0]);
        let first = operator.get("/v1/admin/tasks?limit=1").await.ok();
        assert_eq!(first["has_more"], json!(true));
        let next = format!("?limit=1&after={}", first["last_id"].as_str().unwrap());
        assert_eq!(list(&next).await, ["owls"]);
        let own = operator.get("/v1/tasks").await.ok();
        assert_eq!(own["data"], json!([]));
    }
}
