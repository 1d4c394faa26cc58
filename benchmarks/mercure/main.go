// A Mercure hub for comparison, on the address given: `mercure 127.0.0.1:PORT`. Anybody may
// subscribe; publishers sign with the key in MERCURE_KEY.
package main

import (
	"log"
	"net/http"
	"os"

	"github.com/dunglas/mercure"
	"go.uber.org/zap"
)

func main() {
	key := []byte(os.Getenv("MERCURE_KEY"))
	hub, err := mercure.NewHub(
		mercure.WithAnonymous(),
		mercure.WithPublisherJWT(key, "HS256"),
		mercure.WithLogger(zap.NewNop()),
	)
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/.well-known/mercure", hub)
	http.HandleFunc("/ready", func(http.ResponseWriter, *http.Request) {})
	log.Fatal(http.ListenAndServe(os.Args[1], nil))
}
