package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Members is a store of several members, each a process of its own: an etcd or a NATS cluster
// whose members can be killed and paused one by one.
type Members struct {
	// URLs are where clients connect, by member.
	URLs []string

	kind, dir, program string
	healths            []string
	arguments          [][]string
	running            []*Process
}

// StartEtcd starts an etcd of n members, which sync every write.
func (p Programs) StartEtcd(ctx context.Context, dir string, n int) (*Members, error) {
	m := &Members{kind: "etcd", dir: dir, program: p.sibling("etcd")}
	ports, err := freePorts(2 * n)
	if err != nil {
		return nil, err
	}
	var initial []string
	for i := range n {
		initial = append(initial, fmt.Sprintf("member-%d=http://%s", i, ports[2*i+1]))
	}
	for i := range n {
		client, peer := "http://"+ports[2*i], "http://"+ports[2*i+1]
		m.URLs = append(m.URLs, client)
		m.healths = append(m.healths, client+"/health")
		m.arguments = append(m.arguments, []string{
			"--name", fmt.Sprintf("member-%d", i), "--data-dir", filepath.Join(dir, fmt.Sprintf("data-%d", i)),
			"--listen-client-urls", client, "--advertise-client-urls", client,
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
			"--initial-cluster", strings.Join(initial, ","), "--log-level", "error",
		})
	}
	return m, m.startAll(ctx)
}

// natsConfig is the file of one server; jetstream's sync interval has no flag.
const natsConfig = `server_name: member-%d
listen: %q
http: %q
jetstream { store_dir: %q, sync_interval: always }
`

// natsCluster is the rest of the configuration, for one of several servers. Clients do not learn of the other
// servers: a test decides by which path they connect.
const natsCluster = `cluster { name: berth, listen: %q, routes: [%s], no_advertise: true }
`

// StartNATS starts a NATS cluster of n servers with JetStream, which sync every write.
func (p Programs) StartNATS(ctx context.Context, dir string, n int) (*Members, error) {
	m := &Members{kind: "nats", dir: dir, program: p.sibling("nats-server")}
	ports, err := freePorts(3 * n)
	if err != nil {
		return nil, err
	}
	var routes []string
	for i := range n {
		routes = append(routes, fmt.Sprintf("%q", "nats://"+ports[3*i+2]))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for i := range n {
		file := filepath.Join(dir, fmt.Sprintf("member-%d.conf", i))
		text := fmt.Sprintf(natsConfig, i, ports[3*i], ports[3*i+1], filepath.Join(dir, fmt.Sprintf("data-%d", i)))
		if n > 1 {
			text += fmt.Sprintf(natsCluster, ports[3*i+2], strings.Join(routes, ", "))
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return nil, err
		}
		m.URLs = append(m.URLs, "nats://"+ports[3*i])
		m.healths = append(m.healths, "http://"+ports[3*i+1]+"/healthz")
		m.arguments = append(m.arguments, []string{"--config", file})
	}
	return m, m.startAll(ctx)
}

func (p Programs) sibling(name string) string { return filepath.Join(filepath.Dir(p.Cluster), name) }

func (m *Members) startAll(ctx context.Context) error {
	m.running = make([]*Process, len(m.URLs))
	for i := range m.running {
		if err := m.Start(i); err != nil {
			return errors.Join(err, m.Stop(ctx))
		}
	}
	if err := m.Healthy(ctx); err != nil {
		return errors.Join(err, m.Stop(ctx))
	}
	return nil
}

// Start starts one member on the data it had, and does not wait for it.
func (m *Members) Start(i int) (err error) {
	m.running[i], err = start(m.dir, fmt.Sprintf("%s-%d", m.kind, i), m.program, m.arguments[i]...)
	return err
}

// Healthy waits until every member reports that it is healthy.
func (m *Members) Healthy(ctx context.Context) error {
	return Eventually(ctx, readyWithin, m.kind+" is healthy", func(ctx context.Context) (string, error) {
		for i, url := range m.healths {
			if err := m.running[i].Ended(); err != nil {
				return "", err
			}
			if _, err := fetch(ctx, url); err != nil {
				return fmt.Sprintf("member %d: %v", i, err), nil
			}
		}
		return "", nil
	})
}

// Kill ends one member with SIGKILL.
func (m *Members) Kill(i int) { m.running[i].Kill() }

// Pause stops one member where it is, as a machine without processors does; Resume lets it continue.
func (m *Members) Pause(i int) error { return m.running[i].Signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (m *Members) Resume(i int) error { return m.running[i].Signal(syscall.SIGCONT) }

// Leader is the leading member of an etcd, -1 when no member reports one.
func (m *Members) Leader(ctx context.Context) int {
	for i, url := range m.URLs {
		text, err := fetch(ctx, url+"/metrics")
		if err == nil && strings.Contains(text, "\netcd_server_is_leader 1") {
			return i
		}
	}
	return -1
}

// Stop ends all members; their data stays.
func (m *Members) Stop(context.Context) error {
	for _, p := range m.running {
		if p != nil {
			_ = p.Signal(syscall.SIGCONT) // fails only when it is gone already
			p.Kill()
		}
	}
	return nil
}

// BackUp ends all members as a loss of power would, copies their data to a directory, and starts them again.
func (m *Members) BackUp(ctx context.Context, to string) error {
	return m.exchange(ctx, m.dir, to)
}

// Restore ends all members, and starts them again on what BackUp copied.
func (m *Members) Restore(ctx context.Context, from string) error {
	return m.exchange(ctx, from, m.dir)
}

// exchange copies what members have from one directory to another while no member runs.
func (m *Members) exchange(ctx context.Context, source, target string) error {
	for _, p := range m.running {
		p.Kill()
	}
	for i := range m.running {
		data := fmt.Sprintf("data-%d", i)
		from, into := filepath.Join(source, data), filepath.Join(target, data)
		if err := os.RemoveAll(into); err != nil {
			return err
		}
		if err := os.CopyFS(into, os.DirFS(from)); err != nil {
			return err
		}
		if err := os.Chmod(into, 0o700); err != nil { // what etcd asks for
			return err
		}
	}
	for i := range m.running {
		if err := m.Start(i); err != nil {
			return err
		}
	}
	return m.Healthy(ctx)
}

// Tails are the ends of the members' logs.
func (m *Members) Tails() string {
	var all []string
	for _, p := range m.running {
		all = append(all, p.Tail())
	}
	return strings.Join(all, "\n")
}

// freePorts are loopback addresses on which no process listens at the moment, all different.
func freePorts(n int) ([]string, error) {
	var out []string
	for range n {
		l, err := listenAnywhere()
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // all at the end, so that none is given twice
		out = append(out, l.Addr().String())
	}
	return out, nil
}

// fetch reads a URL; an error for any status but 200.
func fetch(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return string(text), err
}
