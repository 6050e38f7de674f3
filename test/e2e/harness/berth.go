package harness

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// readyWithin bounds the time from the start of a Berth process to its readiness.
const readyWithin = 60 * time.Second

// Berth is one running Berth process.
type Berth struct {
	*Process
	// Address is where it serves health and metrics.
	Address string
}

// UpConfig is the command line of `berth up`.
type UpConfig struct {
	// Kubeconfig of the cluster, DataDir of the embedded stores.
	Kubeconfig, DataDir string
	// LogDir gets the log, under the process's Name ("berth" when empty).
	LogDir, Name string
	// Shards and Binders; zero leaves the flag out.
	Shards, Binders int
	// Config and Policy are files; empty leaves the flag out.
	Config, Policy string
	// Args are appended.
	Args []string
	// Env is added to the environment, each as name=value.
	Env []string
	// Program is run in the place of berth; empty for that.
	Program string
}

// Up starts `berth up` and returns when it is ready.
func (p Programs) Up(ctx context.Context, cfg UpConfig) (*Berth, error) {
	args := []string{"up", "--kubeconfig", cfg.Kubeconfig, "--data-dir", cfg.DataDir}
	for _, flag := range []struct {
		name  string
		value int
	}{{"--shards", cfg.Shards}, {"--binders", cfg.Binders}} {
		if flag.value > 0 {
			args = append(args, flag.name, strconv.Itoa(flag.value))
		}
	}
	if cfg.Config != "" {
		args = append(args, "--config", cfg.Config)
	}
	if cfg.Policy != "" {
		args = append(args, "--policy", cfg.Policy)
	}
	name := cfg.Name
	if name == "" {
		name = "berth"
	}
	if cfg.Program != "" {
		p.Berth = cfg.Program
	}
	p.Env = append(slices.Clone(p.Env), cfg.Env...)
	return p.launch(ctx, cfg.LogDir, name, append(args, cfg.Args...))
}

// RunConfig is the command line of `berth run <service>`.
type RunConfig struct {
	// Service is queue, scheduler, binder or descheduler; Name identifies a replica in messages.
	Service, Name string
	// Kubeconfig is left out for services that have no access to Kubernetes.
	Kubeconfig string
	// NATS and Etcd are the stores' URLs.
	NATS, Etcd string
	// LogDir gets the log.
	LogDir string
	// Args are appended.
	Args []string
}

// Run starts `berth run <service>` and returns when it is ready.
func (p Programs) Run(ctx context.Context, cfg RunConfig) (*Berth, error) {
	return p.launch(ctx, cfg.LogDir, cfg.Name, cfg.args())
}

// Start starts `berth run <service>` and returns at once.
func (p Programs) Start(cfg RunConfig) (*Berth, error) {
	return p.startBerth(cfg.LogDir, cfg.Name, cfg.args())
}

func (cfg RunConfig) args() []string {
	args := []string{"run", cfg.Service, "--nats-url", cfg.NATS, "--etcd-endpoints", cfg.Etcd}
	if cfg.Kubeconfig != "" {
		args = append(args, "--kubeconfig", cfg.Kubeconfig)
	}
	return append(args, cfg.Args...)
}

func (p Programs) startBerth(dir, name string, args []string) (*Berth, error) {
	address, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	process, err := startWith(p.Env, dir, name, p.Berth, append(args, "--http-address", address)...)
	if err != nil {
		return nil, err
	}
	return &Berth{Process: process, Address: address}, nil
}

func (p Programs) launch(ctx context.Context, dir, name string, args []string) (*Berth, error) {
	b, err := p.startBerth(dir, name, args)
	if err != nil {
		return nil, err
	}
	err = Eventually(ctx, readyWithin, name+" is ready", func(ctx context.Context) (string, error) {
		if err := b.Ended(); err != nil {
			return "", err
		}
		text, err := b.get(ctx, "/readyz?verbose")
		if err != nil {
			return fmt.Sprintf("%v: %s", err, text), nil
		}
		return "", nil
	})
	if err != nil {
		b.Kill()
		return nil, fmt.Errorf("%w\n%s", err, b.Tail())
	}
	return b, nil
}

// get answers a path of the process's HTTP server; an error for any status but 200.
func (b *Berth) get(ctx context.Context, path string) (string, error) {
	return fetch(ctx, "http://"+b.Address+path)
}

// Ready returns the text of /readyz?verbose; an error when the process is not ready.
func (b *Berth) Ready(ctx context.Context) (string, error) { return b.get(ctx, "/readyz?verbose") }

// Metric sums the samples of a metric whose labels contain all of labels, each as name="value".
// A metric without labels has one sample.
func (b *Berth) Metric(ctx context.Context, name string, labels ...string) (float64, error) {
	text, err := b.get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for line := range strings.Lines(text) {
		sample, value, ok := cutLast(strings.TrimSpace(line), " ")
		if full, _, _ := strings.Cut(sample, "{"); !ok || full != name || !containsAll(sample, labels) {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s: %w", sample, err)
		}
		sum += number
	}
	return sum, nil
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// FreeAddress is a loopback address on which no process listens at the moment.
func FreeAddress() (string, error) {
	listener, err := listenAnywhere()
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

const (
	// firstPort and ephemeralPort bound the ports of servers. From ephemeralPort on the system chooses the ports of
	// connections (net.ipv4.ip_local_port_range): one may have a server's port before the server listens, even a
	// connection to that server.
	firstPort, ephemeralPort = 16384, 32768
	// portTries is how many ports are tried.
	portTries = 100
)

// nextPort counts the ports that were tried. Processes begin at different ones, as most use few.
var nextPort = func() *atomic.Uint32 {
	const apart = 127
	var n atomic.Uint32
	n.Store(uint32(os.Getpid() * apart))
	return &n
}()

// listenAnywhere listens on a loopback port that is free.
func listenAnywhere() (listener net.Listener, err error) {
	for range portTries {
		port := firstPort + int(nextPort.Add(1))%(ephemeralPort-firstPort)
		if listener, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return listener, nil
		}
	}
	return nil, err
}
