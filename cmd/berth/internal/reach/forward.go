package reach

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"

	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// loopback is where forwarded ports listen: other machines must not reach the stores through the operator's.
const loopback = "127.0.0.1"

// forward is a port of a pod that is forwarded from a local port, until stop is called.
type forward struct {
	address string
	stop    func()
}

// start requests the forwarding of a port of a pod, and waits until it is established, within requestTimeout. The
// forwarding has a goroutine of client-go's, which ends when stop is called or the connection to the pod is lost. The
// local port is chosen by the kernel.
func (c *Cluster) start(ctx context.Context, pod string, port uint16) (*forward, error) {
	dialer, err := c.dialer(pod)
	if err != nil {
		return nil, err
	}
	stop := make(chan struct{})
	ready := make(chan struct{})
	ended := make(chan error, 1)
	ports := []string{fmt.Sprintf("0:%d", port)} // 0 means a free port
	p, err := portforward.NewOnAddressesForStreaming(
		dialer, []string{loopback}, ports, stop, ready, io.Discard, io.Discard)
	if err != nil {
		return nil, err
	}
	// The channel has room for the result, so the goroutine ends even if it is no longer awaited.
	go func() { ended <- p.ForwardPorts() }()
	f := &forward{stop: sync.OnceFunc(func() { close(stop) })}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	select {
	case <-ready:
	case err := <-ended:
		return nil, cmp.Or(err, portforward.ErrLostConnectionToPod)
	case <-ctx.Done():
		f.stop()
		return nil, ctx.Err()
	}
	forwarded, err := p.GetPorts()
	if err != nil {
		f.stop()
		return nil, err
	}
	f.address = fmt.Sprintf("%s:%d", loopback, forwarded[0].Local)
	return f, nil
}

// dialer returns a dialer that upgrades a request to the API server as kubectl port-forward does: over a WebSocket,
// or over SPDY where the server or a proxy on the way does not support WebSockets.
func (c *Cluster) dialer(pod string) (httpstream.Dialer, error) {
	url := c.client.CoreV1().RESTClient().Post().Resource("pods").Namespace(c.installation.Namespace).Name(pod).
		SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(c.rest)
	if err != nil {
		return nil, err
	}
	overSPDY := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	overWebSocket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, c.rest)
	if err != nil {
		return nil, err
	}
	return portforward.NewFallbackDialerForStreaming(overWebSocket, overSPDY, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}
