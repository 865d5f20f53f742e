//! URLs of callbacks in the database.

use std::path::Path;

use mediagate_config::NotifyHookBody;
use mediagate_core::domain::webhooks::callbacks;
use mediagate_model::error::Error;
use serde_json::{Value, json};
use simulator::WebhookReceiver;

use super::{body, builder, delivery_in, id, order, register};
use crate::support::TestGateway;

const TOKEN: &str = "token-of-a-receiver-4711";

/// The files below a folder that contain a text.
fn files_with(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if let Ok(bytes) = std::fs::read(&path)
            && bytes
                .windows(text.len())
                .any(|part| part == text.as_bytes())
        {
            found.push(path.display().to_string());
        }
    }
    found
}

#[tokio::test]
async fn the_database_has_no_url_of_a_callback() {
    let gateway = builder()
        .set(|settings| settings.webhooks.notify_hook_body = Some(NotifyHookBody::Job))
        .start()
        .await;
    let receiver = WebhookReceiver::start().await.unwrap();
    // An endpoint gets the same event, with the callback's URL in its record of the task.
    register(&gateway, &receiver, json!({})).await;
    let url = receiver.url(&format!("/called?token={TOKEN}"));
    let clip = gateway.upload("Song").await;
    let separation = json!({"task": "gen_stem", "continue_clip_id": id(&clip), "notify_hook": url});
    gateway
        .post("/musicgen/submit/music", &separation)
        .await
        .ok();
    let video = order(&gateway, json!({"callback_url": url})).await;
    let posts = receiver.wait_for_count(4).await;
    let with_url = posts.iter().filter(|post| post.body.contains(TOKEN));
    assert_eq!(with_url.count(), 4);
    let shown = gateway.get(&format!("/v1/tasks/{video}")).await.ok();
    assert_eq!(shown["callback_url"], url);
    let deliveries = gateway.get(&format!("/v1/tasks/{video}/deliveries")).await;
    let deliveries = deliveries.ok()["data"].clone();
    let mut deliveries = deliveries.as_array().unwrap().iter();
    let callback = deliveries.find(|delivery| delivery["endpoint_id"] == Value::Null);
    let callback = callback.unwrap();
    assert_eq!(callback["url"], url);
    let alone = gateway
        .get(&format!("/v1/webhooks/deliveries/{}", id(callback)))
        .await
        .ok();
    assert_eq!(alone["url"], url);

    let data = gateway.app.config.data.clone();
    assert_eq!(files_with(&data, TOKEN), Vec::<String>::new());
    gateway.stop().await;
}

async fn check_earlier_rows(mut gateway: TestGateway) {
    let receiver = WebhookReceiver::start().await.unwrap();
    let url = receiver.url(&format!("/called?token={TOKEN}"));
    let task = order(&gateway, json!({"callback_url": url})).await;
    // The workers start later, which changes the gateway.
    let app = gateway.app.clone();
    let execute = async |sql: &'static str, value: String| {
        let write = app.store.write(move |conn| {
            conn.execute(sql, &[(&value).into()])
                .map_err(Error::internal)
        });
        assert!(write.await.unwrap() > 0, "{sql}");
    };
    let plain_count = async || {
        let read = app.store.read(|conn| {
            conn.one(
                "SELECT (SELECT COUNT(*) FROM tasks WHERE callback LIKE '%:%')
                 + (SELECT COUNT(*) FROM webhook_deliveries WHERE url LIKE '%:%' OR body LIKE '%:%')
                 + (SELECT COUNT(*) FROM webhook_events WHERE body LIKE '%:%')",
                &[],
                |row| row.int(0),
            )
            .map_err(Error::internal)
        });
        read.await.unwrap().unwrap()
    };
    execute("UPDATE tasks SET callback = ?1", url.clone()).await;
    let shown = gateway.get(&format!("/v1/tasks/{task}")).await.ok();
    assert_eq!(shown["callback_url"], url);
    assert_eq!(plain_count().await, 1);
    callbacks::encrypt_earlier(&app).await.unwrap();
    assert_eq!(plain_count().await, 0);
    gateway.start_workers().await;
    let first = receiver.wait_for_count(1).await.remove(0);
    assert_eq!(body(&first)["data"]["callback_url"], url);
    let delivery = delivery_in(&gateway, &task, "delivered").await;

    // What was delivered before is sent again byte for byte.
    execute("UPDATE webhook_deliveries SET url = ?1", url.clone()).await;
    execute("UPDATE webhook_events SET body = ?1", first.body.clone()).await;
    assert_eq!(plain_count().await, 2);
    let again = format!("/v1/webhooks/deliveries/{}/redeliver", id(&delivery));
    let answer = gateway.post(&again, &Value::Null).await.ok();
    assert_eq!(answer["url"], url);
    assert_eq!(receiver.wait_for_count(2).await[1].body, first.body);
    delivery_in(&gateway, &task, "delivered").await;
    callbacks::encrypt_earlier(&app).await.unwrap();
    assert_eq!(plain_count().await, 0);
    gateway.post(&again, &Value::Null).await.ok();
    assert_eq!(receiver.wait_for_count(3).await[2].body, first.body);
    gateway.stop().await;
}

#[tokio::test]
async fn what_an_earlier_version_stored_is_read_and_encrypted_on_sqlite() {
    check_earlier_rows(builder().without_workers().start().await).await;
}

#[tokio::test]
async fn what_an_earlier_version_stored_is_read_and_encrypted_on_postgres() {
    check_earlier_rows(builder().without_workers().on_postgres().start().await).await;
}
