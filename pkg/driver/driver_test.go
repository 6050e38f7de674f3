package driver_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bound is the bound of the drain in these tests.
const bound = 15 * time.Second

// service is the smallest service: its core returns each input with a number, and every call is recorded.
type service struct {
	inputs  chan []string
	queries *driver.Queries
	calls   []string
	steps   int
	// busy is the number of further steps until the service is idle. failOn is an input on which Execute fails.
	busy   int
	failOn string
	// received is called by Next when it has received inputs.
	received func()
	left     error
}

func newService() *service {
	return &service{inputs: make(chan []string, 8), queries: driver.NewQueries(), received: func() {}}
}

func (s *service) record(format string, args ...any) {
	s.calls = append(s.calls, fmt.Sprintf(format, args...))
}

// Step implements driver.Core.
func (s *service) Step(in string, _ time.Time) []string {
	s.steps++
	return []string{fmt.Sprintf("%s#%d", in, s.steps)}
}

var (
	errInput = errors.New("input that cannot be decoded")
	errSink  = errors.New("sink that failed")
)

// Next implements driver.Source.
func (s *service) Next(ctx context.Context) (driver.Event[string], error) {
	select {
	case <-ctx.Done():
		return driver.Event[string]{}, nil
	case in := <-s.inputs:
		s.received()
		if slices.Contains(in, "undecodable") {
			return driver.Event[string]{}, errInput
		}
		return driver.Event[string]{Inputs: in}, nil
	case ask := <-s.queries.Asked():
		return driver.Event[string]{Query: ask}, nil
	}
}

// Execute implements driver.Sink.
func (s *service) Execute(_ context.Context, step driver.Step[string, []string]) error {
	s.record("execute %s", step.Output[0])
	s.busy--
	if step.Input == s.failOn {
		return errSink
	}
	return nil
}

// Publish implements driver.Sink.
func (s *service) Publish(draining bool) { s.record("publish draining=%t", draining) }

// Drain implements driver.Drainer.
func (s *service) Drain() string { return "drain" }

// Idle implements driver.Drainer.
func (s *service) Idle() bool { return s.busy <= 0 }

// Leave implements driver.Drainer.
func (s *service) Leave(_ context.Context, late bool) error {
	s.record("leave late=%t", late)
	return s.left
}

func (s *service) loop() *driver.Loop[string, []string] {
	return &driver.Loop[string, []string]{
		Core: s, Clock: clock.RealClock{}, Source: s, Sink: s, Drainer: s, Bound: bound,
	}
}

// run starts the loop; the function that it returns waits for its end.
func (s *service) run(ctx, lifetime context.Context) (ended func() error) {
	result := make(chan error, 1)
	go func() { result <- s.loop().Run(ctx, lifetime) }()
	return func() error { return <-result }
}

func (s *service) want(t *testing.T, calls ...string) {
	t.Helper()
	if !slices.Equal(s.calls, calls) {
		t.Errorf("calls %q, want %q", s.calls, calls)
	}
}

// Inputs are stepped in order, the result of each is carried out before the next one, and the state is published once
// for each event. The source gets its array back empty.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService()
		ctx, stop := context.WithCancel(t.Context())
		ended := s.run(ctx, t.Context())
		array := []string{"a", "b"}
		s.inputs <- array
		s.inputs <- []string{"c"}
		s.inputs <- nil // nothing to step is nothing to publish
		synctest.Wait()
		s.want(t, "execute a#1", "execute b#2", "publish draining=false", "execute c#3", "publish draining=false")
		if array[0] != "" || array[1] != "" {
			t.Errorf("the inputs are still referred to: %q", array)
		}
		stop()
		if err := ended(); err != nil {
			t.Error(err)
		}
	})
}

// counting counts how often it is read.
type counting struct {
	clock.RealClock
	reads int
}

func (c *counting) Now() time.Time {
	c.reads++
	return time.Unix(int64(c.reads), 0)
}

// timed checks the times of steps.
type timed struct {
	*service
	t *testing.T
}

func (s timed) Step(in string, now time.Time) []string {
	return append(s.service.Step(in, now), now.UTC().Format(time.TimeOnly))
}

func (s timed) Execute(ctx context.Context, step driver.Step[string, []string]) error {
	if at := step.At.UTC().Format(time.TimeOnly); at != step.Output[1] {
		s.t.Errorf("the core was stepped at %s, and the sink is given %s", step.Output[1], at)
	}
	return s.service.Execute(ctx, step)
}

// The clock is read once for each step, and the sink gets the time that the core got.
func TestOneTimePerStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newService(), &counting{}
		l := s.loop()
		l.Core, l.Sink = timed{s, t}, timed{s, t}
		l.Clock, l.Drainer = c, nil
		s.inputs <- []string{"a", "b", "c"}
		ctx, stop := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() { result <- l.Run(ctx, ctx) }()
		synctest.Wait()
		stop()
		if err := <-result; err != nil || c.reads != 3 {
			t.Errorf("%v, with %d readings of the clock for 3 steps", err, c.reads)
		}
	})
}

// A question is answered on the deciding goroutine between two steps, and makes no step.
func TestQueryBetweenSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService()
		ctx, stop := context.WithCancel(t.Context())
		ended := s.run(ctx, t.Context())
		s.inputs <- []string{"a"}
		synctest.Wait()
		for range 2 {
			// Without synchronisation with the steps, the race detector would object.
			if err := s.queries.Ask(ctx, func() { s.record("asked after %d", s.steps) }); err != nil {
				t.Fatal(err)
			}
		}
		s.inputs <- []string{"b"}
		synctest.Wait()
		s.want(t, "execute a#1", "publish draining=false", "asked after 1", "asked after 1",
			"execute b#2", "publish draining=false")
		stop()
		if err := ended(); err != nil {
			t.Error(err)
		}
	})
}

// A question comes before the inputs of its event.
func TestQueryComesBeforeTheInputsOfItsEvent(t *testing.T) {
	s := newService()
	l := s.loop()
	ctx, stop := context.WithCancel(t.Context())
	l.Drainer, l.Source = nil, once(func() driver.Event[string] {
		stop()
		return driver.Event[string]{Query: func() { s.record("asked after %d", s.steps) }, Inputs: []string{"a"}}
	})
	if err := l.Run(ctx, ctx); err != nil {
		t.Fatal(err)
	}
	s.want(t, "asked after 0", "execute a#1", "publish draining=false")
}

// once is a source.
type once func() driver.Event[string]

func (o once) Next(context.Context) (driver.Event[string], error) { return o(), nil }

// A question that no loop receives is withdrawn, and never runs.
func TestQueryIsWithdrawn(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	err := driver.NewQueries().Ask(ctx, func() { t.Error("answered without a loop") })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
}

// The drain input is stepped once, other inputs are received until the service is idle, and nothing is stepped after
// the service has left.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService()
		s.busy = 4
		ctx, stop := context.WithCancel(t.Context())
		ended := s.run(ctx, t.Context())
		s.inputs <- []string{"a"}
		synctest.Wait()
		stop()
		synctest.Wait()
		s.inputs <- []string{"b"}
		s.inputs <- []string{"c"}
		if err := ended(); err != nil {
			t.Error(err)
		}
		s.inputs <- []string{"late"}
		synctest.Wait()
		s.want(t, "execute a#1", "publish draining=false", "execute drain#2", "publish draining=true",
			"execute b#3", "publish draining=true", "execute c#4", "publish draining=true", "leave late=false")
	})
}

// A service that is idle when it is stopped leaves at once; one whose context has ended before Run still drains.
func TestDrainOfAnIdleService(t *testing.T) {
	s := newService()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	s.inputs <- []string{"never received"}
	if err := s.loop().Run(ctx, t.Context()); err != nil {
		t.Fatal(err)
	}
	s.want(t, "execute drain#1", "publish draining=true", "leave late=false")
}

// A service that does not become idle leaves when the bound has passed, not before and not later, also when no input
// arrives that would wake it.
func TestBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService()
		s.busy = 100
		ctx, stop := context.WithCancel(t.Context())
		ended := s.run(ctx, t.Context())
		synctest.Wait()
		begin := time.Now()
		stop()
		if err := ended(); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took != bound {
			t.Errorf("left after %s, want %s", took, bound)
		}
		s.want(t, "execute drain#1", "publish draining=true", "leave late=true")
	})
}

// The error of the last call is that of Run.
func TestLeaveFails(t *testing.T) {
	s := newService()
	s.left = errors.New("not written")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := s.loop().Run(ctx, t.Context()); !errors.Is(err, s.left) {
		t.Errorf("%v, want %v", err, s.left)
	}
}

// An error ends the loop at once: the rest of the event is not stepped, nothing is published, and there is no drain.
func TestFatal(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   []string
		want error
		left []string
	}{
		{"source", []string{"undecodable"}, errInput, nil},
		{"sink", []string{"a", "fatal", "b"}, errSink, []string{"execute a#1", "execute fatal#2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newService()
			s.failOn = "fatal"
			s.inputs <- tt.in
			if err := s.loop().Run(t.Context(), t.Context()); !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
			s.want(t, tt.left...)
		})
	}
}

// An error of the drain input ends the drain without Leave.
func TestFatalDrain(t *testing.T) {
	s := newService()
	s.failOn = "drain"
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := s.loop().Run(ctx, t.Context()); !errors.Is(err, errSink) {
		t.Errorf("%v, want %v", err, errSink)
	}
	s.want(t, "execute drain#1")
}

// Without its goroutines a service neither works nor drains, and an error that follows from their end is dropped.
func TestLifetimeEnds(t *testing.T) {
	for name, draining := range map[string]bool{"while it works": false, "while it drains": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newService()
				s.busy, s.failOn = 100, "a"
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				lifetime, end := context.WithCancel(t.Context())
				ended := s.run(ctx, lifetime)
				want := []string{"execute a#1"}
				if draining {
					stop()
					want = []string{"execute drain#1", "publish draining=true", "execute a#2"}
				}
				synctest.Wait()
				s.received = end // the sink fails because its context has ended
				s.inputs <- []string{"a"}
				if err := ended(); err != nil {
					t.Error(err)
				}
				s.want(t, want...)
			})
		})
	}
}

// A loop that waits notices the end of the lifetime without an input.
func TestLifetimeEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService()
		lifetime, end := context.WithCancel(t.Context())
		ended := s.run(t.Context(), lifetime)
		synctest.Wait()
		end()
		if err := ended(); err != nil {
			t.Error(err)
		}
		s.want(t)
	})
}

// An event that was received as the context ended is stepped: it is in no channel any more.
func TestReceivedEventIsStepped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService()
		ctx, stop := context.WithCancel(t.Context())
		s.received = stop
		s.inputs <- []string{"a", "b"}
		if err := s.loop().Run(ctx, t.Context()); err != nil {
			t.Fatal(err)
		}
		s.want(t, "execute a#1", "execute b#2", "publish draining=false",
			"execute drain#3", "publish draining=true", "leave late=false")
	})
}

// A service without a drainer returns when its context ends.
func TestNoDrainer(t *testing.T) {
	s := newService()
	l := s.loop()
	l.Drainer = nil
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := l.Run(ctx, ctx); err != nil {
		t.Fatal(err)
	}
	s.want(t)
}
