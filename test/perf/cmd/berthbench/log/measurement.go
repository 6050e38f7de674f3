package log

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/jetstream"
	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/bare"
)

const (
	// appendsOfOne and appendsOfMany are how many appends a round has of each size.
	appendsOfOne, appendsOfMany = 200, 20
	// bareReadings is how often the bare reader reads everything in a round: it is so much faster, and processor time
	// is counted in hundredths of a second.
	bareReadings = 8
	// bareStream is the stream of the bare reader.
	bareStream = "BARE"
	// readyWithin bounds the start of the server.
	readyWithin = 30 * time.Second
)

// How a server syncs what it stores.
const (
	interval = "interval"
	always   = "always"
)

// measurement is the command line with the programs it needs.
type measurement struct {
	options
	programs harness.Programs
}

// result is one run. Times are of one append, or of one fact to one reader.
type result struct {
	// Sync is how the server syncs.
	Sync string `json:"sync"`
	Run  int    `json:"run"`
	// One and Many are the two appends.
	One  appended `json:"appendOfOne"`
	Many appended `json:"appendOfMany"`
	// FactMicros is processor time of server and reader, BareMicros that of the server and of a reader that only
	// counts bytes, for as many bytes.
	FactMicros float64 `json:"factMicros"`
	BareMicros float64 `json:"bareMicros"`
}

// appended is what an append takes.
type appended struct {
	// MedianMicros is the time until it is acknowledged.
	MedianMicros float64 `json:"medianMicros"`
	// CPUMicros is the processor time of server and writer.
	CPUMicros float64 `json:"cpuMicros"`
}

// all alternates between the settings.
func (m *measurement) all(ctx context.Context) (results []result, err error) {
	for i := range m.runs {
		for _, sync := range []string{interval, always} {
			r, err := m.run(ctx, sync)
			if err != nil {
				return nil, fmt.Errorf("sync %s, run %d: %w", sync, i+1, err)
			}
			r.Sync, r.Run = sync, i+1
			results = append(results, r)
			fmt.Fprintf(os.Stderr, "sync %s, run %d: append of one %.0f µs, of %d %.0f µs; a fact %.2f µs, bare %.2f µs\n",
				sync, r.Run, r.One.MedianMicros, m.together, r.Many.MedianMicros, r.FactMicros, r.BareMicros)
		}
	}
	return results, nil
}

// run starts a server, stores what readers read, and lets writers and readers take turns.
func (m *measurement) run(ctx context.Context, sync string) (r result, err error) {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	s, err := m.start(ctx, sync)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.stop(context.WithoutCancel(ctx))) }()
	facts := someFacts(m.facts)
	if err := s.fill(ctx, facts, m.together); err != nil {
		return r, err
	}
	// Once before it counts: connections, caches, and the first of everything.
	one, many, fact, raw := meter{server: s}, meter{server: s}, meter{server: s}, meter{server: s}
	for i := range m.rounds + 1 {
		if i == 1 {
			one, many, fact, raw = meter{server: s}, meter{server: s}, meter{server: s}, meter{server: s}
		}
		err := errors.Join(
			one.times(appendsOfOne, func() error { return s.writer.append(ctx, facts[:1]) }),
			many.times(appendsOfMany, func() error { return s.writer.append(ctx, facts[:m.together]) }),
			fact.times(1, func() error { return readAll(ctx, s.log, 1, m.facts) }),
			raw.times(bareReadings, func() error { return s.bare.CountAll(ctx, bareStream, s.bareBytes) }),
		)
		if err != nil {
			return r, err
		}
	}
	r.One, r.Many = one.appended(), many.appended()
	r.FactMicros, r.BareMicros = fact.cpuMicros()/float64(m.facts), raw.cpuMicros()/float64(m.facts)
	return r, nil
}

// server is a running NATS server with both logs open.
type server struct {
	dir     string
	process *harness.Process
	log     *jetstream.Log
	writer  writer
	bare    *bare.Log
	// bareBytes is how many bytes the bare reader counts.
	bareBytes int
}

// start starts a server in a directory of its own.
func (m *measurement) start(ctx context.Context, sync string) (s *server, err error) {
	s = &server{}
	if s.dir, err = os.MkdirTemp("", "berth-bench-log-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop(ctx))
		}
	}()
	address, err := harness.FreeAddress()
	if err != nil {
		return s, err
	}
	config := filepath.Join(s.dir, "nats.conf")
	if err := os.WriteFile(config, []byte(configOf(address, s.dir, sync)), 0o600); err != nil {
		return s, err
	}
	if s.process, err = m.programs.StartProgram(s.dir, "nats", "nats-server", "--config", config); err != nil {
		return s, err
	}
	err = harness.Eventually(ctx, readyWithin, "nats-server listens", func(context.Context) (string, error) {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			return err.Error(), s.process.Ended()
		}
		return "", connection.Close()
	})
	if err != nil {
		return s, err
	}
	url := "nats://" + address
	if s.log, err = jetstream.Open(ctx, jetstream.Config{URLs: []string{url}}); err != nil {
		return s, err
	}
	s.writer = writer{log: s.log}
	s.bare, err = bare.Open(url)
	return s, err
}

// configOf is the configuration of a server on this address.
func configOf(address, dir, sync string) string {
	every := "2m" // the server's default
	if sync == always {
		every = always
	}
	return fmt.Sprintf("server_name: bench\nlisten: %q\njetstream { store_dir: %q, sync_interval: %s }\n",
		address, dir, every)
}

// stop ends the server and removes what it stored.
func (s *server) stop(ctx context.Context) (err error) {
	if s.bare != nil {
		s.bare.Close()
	}
	if s.log != nil {
		s.log.Close()
	}
	if s.process != nil {
		err = s.process.Stop(ctx)
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// fill stores the facts that both readers read: by Berth's log in appends of so many, and as messages of so many with
// the same bytes.
func (s *server) fill(ctx context.Context, facts []events.Fact, together int) error {
	if err := s.writer.appendAll(ctx, facts, together); err != nil {
		return err
	}
	if err := s.bare.Create(ctx, bareStream); err != nil {
		return err
	}
	for some := range slices.Chunk(messagesOf(facts), together) {
		size := 0
		for _, message := range some {
			size += message.Size()
		}
		if err := s.bare.Append(ctx, bareStream, make([]byte, size)); err != nil {
			return err
		}
		s.bareBytes += size
	}
	return nil
}

// meter sums up what one kind of work takes.
type meter struct {
	server *server
	took   []float64
	cpu    time.Duration
}

// times does something so many times.
func (m *meter) times(n int, do func() error) error {
	before, err := m.server.used()
	if err != nil {
		return err
	}
	for range n {
		begin := time.Now()
		if err := do(); err != nil {
			return err
		}
		m.took = append(m.took, float64(time.Since(begin).Nanoseconds())/1000)
	}
	after, err := m.server.used()
	m.cpu += after - before
	return err
}

func (m *meter) cpuMicros() float64 { return float64(m.cpu.Microseconds()) / float64(len(m.took)) }

func (m *meter) appended() appended {
	return appended{MedianMicros: harness.Median(m.took), CPUMicros: m.cpuMicros()}
}

// used is the processor time of the server and of this program so far.
func (s *server) used() (time.Duration, error) {
	used, err := harness.CPUTime(s.process.PID())
	if err != nil {
		return 0, err
	}
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		return 0, err
	}
	return used + time.Duration(own.Utime.Nano()+own.Stime.Nano()), nil
}
