package process

import (
	"errors"
	"fmt"
	"net"
)

// Loopback is the only address the cluster listens on.
const Loopback = "127.0.0.1"

// FreePorts returns count different TCP ports that are free on the loopback
// address at this moment. Another process may take one before it is used, so
// callers start again with new ones when a child finds its port taken.
func FreePorts(count int) (ports []int, err error) {
	var held []net.Listener
	defer func() {
		for _, listener := range held {
			err = errors.Join(err, listener.Close())
		}
	}()
	for range count {
		listener, err := net.Listen("tcp", net.JoinHostPort(Loopback, "0"))
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		held = append(held, listener)
		address, ok := listener.Addr().(*net.TCPAddr)
		if !ok {
			return nil, fmt.Errorf("find a free port: unexpected address %v", listener.Addr())
		}
		ports = append(ports, address.Port)
	}
	return ports, nil
}

// PortTaken reports whether a child ended because its port was in use.
func (c *Child) PortTaken() bool {
	return c.Logged("address already in use")
}
