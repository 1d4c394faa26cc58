# A virtual host of the gateway as Terraform keeps it, by the provider for RabbitMQ: docs/http.md
#   RABBITMQ_ENDPOINT=http://127.0.0.1:8080 RABBITMQ_USERNAME=guest RABBITMQ_PASSWORD=guest terraform apply
terraform {
  required_providers {
    rabbitmq = { source = "cyrilgdn/rabbitmq" }
  }
}

variable "longest" {
  description = "Messages that wait in the queue before publishers are told no"
  default     = "1000"
}

variable "password" {
  default   = "secret"
  sensitive = true
}

provider "rabbitmq" {}

resource "rabbitmq_vhost" "shop" { name = "shop" }

resource "rabbitmq_user" "app" {
  name     = "app"
  password = var.password
  tags     = ["monitoring"]
}

resource "rabbitmq_permissions" "app" {
  user  = rabbitmq_user.app.name
  vhost = rabbitmq_vhost.shop.name
  permissions {
    configure = ""
    write     = "orders"
    read      = ".*"
  }
}

resource "rabbitmq_exchange" "orders" {
  name  = "orders"
  vhost = rabbitmq_vhost.shop.name
  settings {
    type    = "topic"
    durable = true
  }
}

# Routing keys of its own region alone, at the topic exchange.
resource "rabbitmq_topic_permissions" "app" {
  user  = rabbitmq_permissions.app.user
  vhost = rabbitmq_vhost.shop.name
  permissions {
    exchange = rabbitmq_exchange.orders.name
    write    = "^eu\\."
    read     = ".*"
  }
}

resource "rabbitmq_exchange" "late" {
  name  = "late"
  vhost = rabbitmq_vhost.shop.name
  settings {
    type        = "fanout"
    auto_delete = false
    durable     = true
    arguments   = { "alternate-exchange" = "amq.fanout" }
  }
}

resource "rabbitmq_queue" "new" {
  name  = "new"
  vhost = rabbitmq_vhost.shop.name
  settings {
    durable        = true
    arguments_json = jsonencode({ "x-dead-letter-exchange" = rabbitmq_exchange.late.name, "x-message-ttl" = 60000 })
  }
}

resource "rabbitmq_queue" "kept" {
  name  = "kept"
  vhost = rabbitmq_vhost.shop.name
  settings {
    durable   = true
    arguments = { "x-queue-type" = "quorum" }
  }
}

resource "rabbitmq_binding" "new" {
  source           = rabbitmq_exchange.orders.name
  vhost            = rabbitmq_vhost.shop.name
  destination      = rabbitmq_queue.new.name
  destination_type = "queue"
  routing_key      = "order.new.#"
}

resource "rabbitmq_binding" "late" {
  source           = rabbitmq_exchange.orders.name
  vhost            = rabbitmq_vhost.shop.name
  destination      = rabbitmq_exchange.late.name
  destination_type = "exchange"
  routing_key      = "order.late"
  arguments        = { "why" = "late" }
}

resource "rabbitmq_policy" "limits" {
  name  = "limits"
  vhost = rabbitmq_vhost.shop.name
  policy {
    pattern    = "^new$"
    priority   = 1
    apply_to   = "queues"
    definition = { "max-length" = var.longest, "overflow" = "reject-publish" }
  }
}

resource "rabbitmq_operator_policy" "most" {
  name  = "most"
  vhost = rabbitmq_vhost.shop.name
  policy {
    pattern    = ".*"
    priority   = 0
    apply_to   = "queues"
    definition = { "max-length-bytes" = "1000000" }
  }
}
