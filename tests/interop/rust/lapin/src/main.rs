// lapin: one JSON line per check. Arguments: host, port.
// `{"ask": "restart"}` asks for the server to be killed and started again; a line comes when it is.

use futures_lite::StreamExt;
use lapin::{
    message::Delivery,
    options::*,
    types::{AMQPValue, DecimalValue, FieldArray, FieldTable},
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, Consumer,
};
use serde_json::{json, Value};
use std::{env, future::Future, io, time::Duration};

type Failure = Box<dyn std::error::Error>;
type Seen = Result<Value, Failure>;

const MANY: usize = 200;
const PATIENCE: Duration = Duration::from_secs(60);

fn url() -> String {
    let words: Vec<String> = env::args().collect();
    format!("amqp://guest:guest@{}:{}/%2f", words[1], words[2])
}

async fn connect() -> Result<Connection, lapin::Error> {
    Connection::connect(&url(), ConnectionProperties::default()).await
}

async fn within<T>(future: impl Future<Output = T>) -> Result<T, Failure> {
    Ok(tokio::time::timeout(PATIENCE, future).await?)
}

/// A queue of this connection only, under a name of the server's.
async fn own_queue(channel: &Channel) -> Result<String, lapin::Error> {
    let options = QueueDeclareOptions {
        exclusive: true,
        ..Default::default()
    };
    let queue = channel
        .queue_declare("".into(), options, FieldTable::default())
        .await?;
    Ok(queue.name().as_str().to_string())
}

async fn publish(
    channel: &Channel,
    queue: &str,
    body: &[u8],
    properties: BasicProperties,
) -> Result<Confirmation, lapin::Error> {
    let options = BasicPublishOptions {
        mandatory: true,
        ..Default::default()
    };
    channel
        .basic_publish("".into(), queue.into(), options, body, properties)
        .await?
        .await
}

async fn consume(channel: &Channel, queue: &str) -> Result<Consumer, lapin::Error> {
    channel
        .basic_consume(
            queue.into(),
            "".into(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        )
        .await
}

async fn next(consumer: &mut Consumer) -> Result<Delivery, Failure> {
    Ok(within(consumer.next())
        .await?
        .ok_or("the consumer ended")??)
}

/// The reply code that the server gave, if it was the server who said no.
fn code(error: &lapin::Error) -> Option<u16> {
    match error.kind() {
        lapin::ErrorKind::ProtocolError(error) => Some(error.get_id()),
        _ => None,
    }
}

async fn order() -> Seen {
    let connection = connect().await?;
    let channel = connection.create_channel().await?;
    let queue = own_queue(&channel).await?;
    channel.basic_qos(20, BasicQosOptions::default()).await?;
    let mut consumer = consume(&channel, &queue).await?;
    let publishing = connection.create_channel().await?;
    publishing
        .confirm_select(ConfirmSelectOptions::default())
        .await?;
    let mut pending = Vec::new();
    for number in 0..MANY {
        pending.push(
            publishing
                .basic_publish(
                    "".into(),
                    queue.as_str().into(),
                    BasicPublishOptions::default(),
                    number.to_string().as_bytes(),
                    BasicProperties::default(),
                )
                .await?,
        );
    }
    let mut confirmed = 0;
    for one in pending {
        confirmed += usize::from(within(one).await?? == Confirmation::Ack(None));
    }
    let mut in_order = true;
    for number in 0..MANY {
        let delivery = next(&mut consumer).await?;
        in_order &= delivery.data == number.to_string().as_bytes();
        delivery.ack(BasicAckOptions::default()).await?;
    }
    connection.close(200, "bye".into()).await?;
    Ok(json!({"count": MANY, "in_order": in_order, "confirmed": confirmed}))
}

async fn returned() -> Seen {
    let connection = connect().await?;
    let channel = connection.create_channel().await?;
    channel
        .confirm_select(ConfirmSelectOptions::default())
        .await?;
    let confirmation = within(publish(
        &channel,
        "lapin-nobody",
        b"back",
        BasicProperties::default(),
    ))
    .await??;
    let acked = confirmation.is_ack();
    let message = confirmation.take_message().ok_or("it was not returned")?;
    connection.close(200, "bye".into()).await?;
    Ok(json!({
        "code": message.reply_code,
        "text": message.reply_text.as_str(),
        "body": String::from_utf8(message.delivery.data)?,
        "acked": acked,
    }))
}

async fn requeue() -> Seen {
    let connection = connect().await?;
    let channel = connection.create_channel().await?;
    let queue = own_queue(&channel).await?;
    publish(&channel, &queue, b"again", BasicProperties::default()).await?;
    let mut consumer = consume(&channel, &queue).await?;
    let mut seen = Vec::new();
    let first = next(&mut consumer).await?;
    seen.push(first.redelivered);
    first
        .nack(BasicNackOptions {
            requeue: true,
            ..Default::default()
        })
        .await?;
    let second = next(&mut consumer).await?;
    seen.push(second.redelivered);
    second.reject(BasicRejectOptions { requeue: true }).await?;
    let third = next(&mut consumer).await?;
    seen.push(third.redelivered);
    third.nack(BasicNackOptions::default()).await?;
    let gone = channel
        .basic_get(queue.as_str().into(), BasicGetOptions::default())
        .await?
        .is_none();
    connection.close(200, "bye".into()).await?;
    Ok(json!({"redelivered": seen, "gone": gone}))
}

async fn transactions() -> Seen {
    let connection = connect().await?;
    let channel = connection.create_channel().await?;
    let observer = connection.create_channel().await?;
    let queue = own_queue(&channel).await?;
    let passive = QueueDeclareOptions {
        passive: true,
        ..Default::default()
    };
    channel.tx_select().await?;
    let mut counts = Vec::new();
    for commit in [true, false] {
        channel
            .basic_publish(
                "".into(),
                queue.as_str().into(),
                BasicPublishOptions::default(),
                b"x",
                BasicProperties::default(),
            )
            .await?;
        let before = observer
            .queue_declare(queue.as_str().into(), passive, FieldTable::default())
            .await?;
        counts.push(before.message_count());
        if commit {
            channel.tx_commit().await?;
        } else {
            channel.tx_rollback().await?;
        }
        let after = observer
            .queue_declare(queue.as_str().into(), passive, FieldTable::default())
            .await?;
        counts.push(after.message_count());
    }
    connection.close(200, "bye".into()).await?;
    Ok(json!({"counts": counts}))
}

async fn large() -> Seen {
    let connection = connect().await?;
    let channel = connection.create_channel().await?;
    let queue = own_queue(&channel).await?;
    let body: Vec<u8> = (0..8 * 1024 * 1024 + 17)
        .map(|at: u32| (at % 251) as u8)
        .collect();
    publish(&channel, &queue, &body, BasicProperties::default()).await?;
    let mut consumer = consume(&channel, &queue).await?;
    let delivery = next(&mut consumer).await?;
    delivery.ack(BasicAckOptions::default()).await?;
    connection.close(200, "bye".into()).await?;
    Ok(json!({"size": delivery.data.len(), "same": delivery.data == body}))
}

/// Each type of field that lapin knows comes back as it went, and each property.
async fn headers() -> Seen {
    let mut deep = FieldTable::default();
    deep.insert(
        "list".into(),
        AMQPValue::FieldArray(FieldArray::from(vec![
            AMQPValue::LongInt(1),
            AMQPValue::LongString("two".into()),
            AMQPValue::Void,
        ])),
    );
    let mut sent = FieldTable::default();
    for (name, value) in [
        ("boolean", AMQPValue::Boolean(true)),
        ("i8", AMQPValue::ShortShortInt(-128)),
        ("u8", AMQPValue::ShortShortUInt(255)),
        ("i16", AMQPValue::ShortInt(-32768)),
        ("u16", AMQPValue::ShortUInt(65535)),
        ("i32", AMQPValue::LongInt(i32::MIN)),
        ("u32", AMQPValue::LongUInt(u32::MAX)),
        ("i64", AMQPValue::LongLongInt(i64::MIN)),
        ("f32", AMQPValue::Float(0.5)),
        ("f64", AMQPValue::Double(1e300)),
        (
            "decimal",
            AMQPValue::DecimalValue(DecimalValue {
                scale: 2,
                value: 314,
            }),
        ),
        ("string", AMQPValue::LongString("grün ✓".into())),
        ("timestamp", AMQPValue::Timestamp(1_234_567_890)),
        ("void", AMQPValue::Void),
        ("octets", AMQPValue::ByteArray(vec![0u8, 255, 10].into())),
        ("deep", AMQPValue::FieldTable(deep)),
    ] {
        sent.insert(name.into(), value);
    }
    let properties = BasicProperties::default()
        .with_content_type("text/plain".into())
        .with_content_encoding("utf-8".into())
        .with_headers(sent)
        .with_delivery_mode(2)
        .with_priority(3)
        .with_correlation_id("c-1".into())
        .with_reply_to("somewhere".into())
        .with_expiration("60000".into())
        .with_message_id("m-1".into())
        .with_timestamp(1_700_000_000)
        .with_type("kind".into())
        .with_user_id("guest".into())
        .with_app_id("lapin".into());
    let connection = connect().await?;
    let channel = connection.create_channel().await?;
    let queue = own_queue(&channel).await?;
    publish(&channel, &queue, b"x", properties.clone()).await?;
    let mut consumer = consume(&channel, &queue).await?;
    let delivery = next(&mut consumer).await?;
    delivery.ack(BasicAckOptions::default()).await?;
    let came = delivery.properties.headers().clone().unwrap_or_default();
    let wanted = properties.headers().clone().unwrap_or_default();
    let other: Vec<String> = wanted
        .inner()
        .iter()
        .filter(|(name, value)| came.inner().get(name.as_str()) != Some(*value))
        .map(|(name, _)| format!("{name}: {:?}", came.inner().get(name.as_str())))
        .collect();
    let same = delivery.properties == properties;
    connection.close(200, "bye".into()).await?;
    Ok(json!({"other": other, "same": same}))
}

async fn refused() -> Seen {
    let connection = connect().await?;
    let mut codes = Vec::new();
    let channel = connection.create_channel().await?;
    let passive = QueueDeclareOptions {
        passive: true,
        ..Default::default()
    };
    let missing = channel
        .queue_declare("lapin-none".into(), passive, FieldTable::default())
        .await;
    codes.push(missing.err().as_ref().and_then(code));
    let second = connection.create_channel().await?;
    let transient = QueueDeclareOptions {
        exclusive: true,
        ..Default::default()
    };
    second
        .queue_declare("lapin-mine".into(), transient, FieldTable::default())
        .await?;
    let other = QueueDeclareOptions {
        auto_delete: true,
        exclusive: true,
        ..Default::default()
    };
    let inequivalent = second
        .queue_declare("lapin-mine".into(), other, FieldTable::default())
        .await;
    codes.push(inequivalent.err().as_ref().and_then(code));
    let third = connection.create_channel().await;
    let alive = third.is_ok();
    connection.close(200, "bye".into()).await?;
    let wrong = url().replace("guest:guest", "guest:wrong");
    let login = Connection::connect(&wrong, ConnectionProperties::default()).await;
    codes.push(login.err().as_ref().and_then(code));
    Ok(json!({"codes": codes, "alive": alive}))
}

/// A close is answered, and the wire is there until the client has hung up.
async fn closes() -> Seen {
    let mut errors = Vec::new();
    for _ in 0..20 {
        let connection = connect().await?;
        let mut events = connection.events_listener();
        let _channel = connection.create_channel().await?; // one dropped closes itself meanwhile
        if let Err(error) = within(connection.close(200, "bye".into())).await? {
            errors.push(error.to_string());
        }
        while let Ok(Some(event)) =
            tokio::time::timeout(Duration::from_millis(20), events.next()).await
        {
            if let lapin::Event::Error(error) = event {
                errors.push(error.to_string());
            }
        }
    }
    Ok(json!({"errors": errors}))
}

fn restart() -> Result<(), Failure> {
    println!("{}", json!({"ask": "restart"}));
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    assert_eq!(line, "restarted\n");
    Ok(())
}

/// The server dies and comes back; lapin's own recovery brings connection, channels, queue, consumer.
async fn recovery() -> Seen {
    let properties = ConnectionProperties::default()
        .with_connection_name("recovers".into())
        .configure_backoff(|backoff| {
            backoff
                .with_min_delay(Duration::from_millis(100))
                .with_max_delay(Duration::from_secs(1))
                .with_max_times(60)
        })
        .enable_auto_recover();
    let connection = Connection::connect(&url(), properties).await?;
    let publishing = connection.create_channel().await?;
    let consuming = connection.create_channel().await?;
    publishing
        .confirm_select(ConfirmSelectOptions::default())
        .await?;
    let durable = QueueDeclareOptions {
        durable: true,
        ..Default::default()
    };
    for queue in ["lapin-recovery", "lapin-kept"] {
        publishing
            .queue_declare(queue.into(), durable, FieldTable::default())
            .await?;
    }
    let lasting = BasicProperties::default().with_delivery_mode(2);
    publish(&publishing, "lapin-kept", b"kept", lasting.clone()).await?;
    let mut consumer = consume(&consuming, "lapin-recovery").await?;
    publish(&publishing, "lapin-recovery", b"before", lasting.clone()).await?;
    let mut bodies = Vec::new();
    let before = next(&mut consumer).await?;
    bodies.push(String::from_utf8(before.data.clone())?);
    before.ack(BasicAckOptions::default()).await?;
    tokio::task::spawn_blocking(|| restart().map_err(|error| error.to_string())).await??;
    while let Err(error) = within(publish(
        &publishing,
        "lapin-recovery",
        b"after",
        lasting.clone(),
    ))
    .await?
    {
        within(publishing.wait_for_recovery(error)).await??;
    }
    while bodies.last().map(String::as_str) != Some("after") {
        match within(consumer.next()).await?.ok_or("the consumer ended")? {
            Ok(delivery) => {
                let body = String::from_utf8(delivery.data.clone())?;
                if !bodies.contains(&body) {
                    bodies.push(body); // once more is allowed, not at all is not
                }
                delivery.ack(BasicAckOptions::default()).await?;
            }
            Err(error) => within(consuming.wait_for_recovery(error)).await??,
        }
    }
    let kept = publishing
        .basic_get("lapin-kept".into(), BasicGetOptions { no_ack: true })
        .await?
        .map(|message| String::from_utf8(message.delivery.data.clone()));
    for queue in ["lapin-recovery", "lapin-kept"] {
        publishing
            .queue_delete(queue.into(), QueueDeleteOptions::default())
            .await?;
    }
    within(connection.close(200, "bye".into())).await??;
    Ok(json!({"bodies": bodies, "kept": kept.transpose()?}))
}

async fn report(name: &str, check: impl Future<Output = Seen>) {
    let line = match tokio::time::timeout(2 * PATIENCE, check).await {
        Ok(Ok(got)) => json!({"check": name, "got": got}),
        Ok(Err(error)) => json!({"check": name, "error": error.to_string()}),
        Err(_) => json!({"check": name, "error": "it took too long"}),
    };
    println!("{line}");
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    report("order", order()).await;
    report("returned", returned()).await;
    report("requeue", requeue()).await;
    report("tx", transactions()).await;
    report("large", large()).await;
    report("headers", headers()).await;
    report("refused", refused()).await;
    report("closes", closes()).await;
    report("recovery", recovery()).await;
}
