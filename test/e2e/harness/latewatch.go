package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// lateBuffer is how many reads of a watch may be on their way at once; a watch of pods sends
// an event a read.
const lateBuffer = 1 << 14

// LateWatches serves the cluster's API until ctx ends, with all watches of pods delayed by a time: its clients see
// pods as they were. It writes a kubeconfig that leads there to path. That kubeconfig has administrator rights.
func (c *Cluster) LateWatches(ctx context.Context, by time.Duration, path string) error {
	target, err := url.Parse(c.Rest.Host)
	if err != nil {
		return err
	}
	transport, err := rest.TransportFor(c.Rest)
	if err != nil {
		return err
	}
	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(r *http.Response) error {
			query := r.Request.URL.Query()
			if strings.HasSuffix(r.Request.URL.Path, "/pods") && (query.Get("watch") == "true" || query.Get("watch") == "1") {
				r.Body = late(ctx, r.Body, by)
			}
			return nil
		},
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	// Watches last as long as the test: nothing but their beginning has a bound.
	server := &http.Server{Handler: proxy, ReadHeaderTimeout: time.Minute, IdleTimeout: time.Minute}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() { _ = server.Serve(listener) }() // it ends with the context
	kubeconfig := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: late, cluster: {server: "http://%s"}}]
users: [{name: late, user: {}}]
contexts: [{name: late, context: {cluster: late, user: late}}]
current-context: late
`, listener.Addr())
	return os.WriteFile(path, []byte(kubeconfig), 0o600)
}

type lateRead struct {
	data []byte
	due  time.Time
	err  error
}

// lateBody delivers its input after a delay, in order.
type lateBody struct {
	ctx   context.Context //nolint:containedctx // a reader has no other way to end with the test
	from  io.ReadCloser
	reads chan lateRead
	now   lateRead
}

func late(ctx context.Context, from io.ReadCloser, by time.Duration) io.ReadCloser {
	b := &lateBody{ctx: ctx, from: from, reads: make(chan lateRead, lateBuffer)}
	go func() {
		defer close(b.reads)
		for {
			data := make([]byte, 32<<10)
			n, err := from.Read(data)
			select {
			case b.reads <- lateRead{data[:n], time.Now().Add(by), err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return b
}

func (b *lateBody) Read(p []byte) (int, error) {
	for len(b.now.data) == 0 {
		if b.now.err != nil {
			return 0, b.now.err
		}
		select {
		case r, more := <-b.reads:
			if !more {
				return 0, io.EOF
			}
			b.now = r
		case <-b.ctx.Done():
			return 0, errors.New("the test is over")
		}
		select {
		case <-time.After(time.Until(b.now.due)):
		case <-b.ctx.Done():
			return 0, errors.New("the test is over")
		}
	}
	n := copy(p, b.now.data)
	b.now.data = b.now.data[n:]
	return n, nil
}

func (b *lateBody) Close() error { return b.from.Close() }
