package serve

import (
	"net/http"
	"time"
)

// maxHeaderBytes bounds the header of a request; Berth's clients send less than a kilobyte.
const maxHeaderBytes = 64 << 10

// timeouts holds the times that a client may take, so that none keeps a connection without using it.
type timeouts struct {
	// header bounds reading the header, and request reading all of a request: bodies are a single word.
	header, request time.Duration
	// answer bounds the handler, and the client's reading of what it writes. A profile may take longer by the time
	// requested for it: package pprof moves the deadline.
	answer time.Duration
	// idle is how long a connection may wait for its next request: longer than the interval between two scrapes.
	idle time.Duration
}

// defaultTimeouts are the times in production; tests use shorter ones.
var defaultTimeouts = timeouts{
	header: 5 * time.Second, request: 10 * time.Second, answer: time.Minute, idle: 2 * time.Minute,
}

// server returns an HTTP server with these bounds.
func (p timeouts) server(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: p.header, ReadTimeout: p.request, WriteTimeout: p.answer, IdleTimeout: p.idle,
		MaxHeaderBytes: maxHeaderBytes,
	}
}
