package stores

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/berth-scheduler/berth/tools/cluster/internal/process"
)

// NATSPorts is how many ports a nats-server listens on: clients, monitoring.
const NATSPorts = 2

// NATS describes a single nats-server with JetStream.
type NATS struct {
	// Path is the program, Dir where its configuration and data go.
	Path, Dir string
}

// URL is the client address of a nats-server on this port.
func (NATS) URL(port int) string {
	return "nats://" + net.JoinHostPort(process.Loopback, strconv.Itoa(port))
}

// Healthz is the address that answers once JetStream is usable.
func (NATS) Healthz(port int) string {
	return "http://" + net.JoinHostPort(process.Loopback, strconv.Itoa(port)) + "/healthz"
}

// Spec is the child for these ports. JetStream's sync interval has no flag,
// hence the configuration file: with the default, acknowledged messages of
// the last two minutes are lost with the power.
func (n NATS) Spec(ports []int) (process.Spec, error) {
	config := fmt.Sprintf(`server_name: local
listen: %q
http: %q
# The server adds "jetstream" to this path.
jetstream {
  store_dir: %q
  sync_interval: always
}
`,
		net.JoinHostPort(process.Loopback, strconv.Itoa(ports[0])),
		net.JoinHostPort(process.Loopback, strconv.Itoa(ports[1])),
		n.Dir)
	path := filepath.Join(n.Dir, "nats.conf")
	if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
		return process.Spec{}, err
	}
	return process.Spec{Name: "nats", Path: n.Path, Args: []string{"--config", path}}, nil
}
