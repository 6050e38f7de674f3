package driver

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Core is a decision core: a state machine that turns inputs of type I into results of type O.
//
// A result is a value that describes what is to be done. Where the effects of a core are of a closed set, O is a slice
// of them in the order in which they must be carried out (queue, binder); where a step has one effect of each kind, O
// is one struct whose documentation states the order (scheduler, descheduler). A core never carries anything out.
type Core[I, O any] interface {
	// Step applies one input at the time now and returns what follows from it. Equal cores, given equal inputs at
	// equal times, return equal results: simulation and replay rely on that. now does not go backwards unless the
	// Loop's clock does. The result belongs to the caller: the core does not change it in later steps.
	Step(in I, now time.Time) O
}

// Event is one delivery of a Source. The zero Event means that nothing is to be stepped: the loop then checks its
// contexts and calls Next again.
type Event[I any] struct {
	// Query is a question about the core, received from Queries.Asked. It runs before the inputs are stepped.
	Query func()
	// Inputs are stepped one by one, in order; no other input comes between them. The loop clears the slice when all
	// of them have been stepped, so that a source may return the same array in every event.
	Inputs []I
}

// Step is one step that was taken.
type Step[I, O any] struct {
	Input  I
	Output O
	// At is the time that was passed to Core.Step.
	At time.Time
}

// Source supplies the inputs. Only the deciding goroutine calls it.
type Source[I any] interface {
	// Next waits for something to do and returns it. It returns the zero Event when ctx ends first. While the loop
	// drains, ctx ends when the bound has passed. An error ends the loop, and what is returned with it is dropped; a
	// question that was received must therefore be returned without an error.
	Next(ctx context.Context) (Event[I], error)
}

// Sink carries out what a core decides. Only the deciding goroutine calls it.
type Sink[I, O any] interface {
	// Execute carries out the result of a step, or hands it to other goroutines, in the order of its effects. ctx is
	// the lifetime of Loop.Run. It is called for each step, before the next one. An error ends the loop.
	Execute(ctx context.Context, s Step[I, O]) error
	// Publish shows other goroutines the state of the core (readiness, ownership), after all steps of an event. A
	// service that drains is not ready, whatever the core reports.
	Publish(draining bool)
}

// Drainer ends a service in order. Only the deciding goroutine calls it.
type Drainer[I any] interface {
	// Drain returns the input that makes the core stop to accept work. It is called once.
	Drain() I
	// Idle reports whether nothing is left to wait for. It is called after each turn of the drain.
	Idle() bool
	// Leave writes what is still in memory and releases what the service holds. It is the last call of the loop. late
	// means that the bound has passed and the service was not idle. ctx is the lifetime of Loop.Run.
	Leave(ctx context.Context, late bool) error
}

// Loop drives one core. All fields but Drainer and Bound must be set. They are not changed while Run is running.
type Loop[I, O any] struct {
	Core Core[I, O]
	// Clock gives the time of each step, and bounds the drain.
	Clock  clock.Clock
	Source Source[I]
	Sink   Sink[I, O]
	// Drainer is nil for a service that has nothing to finish: Run then returns as soon as its context ends.
	Drainer Drainer[I]
	// Bound is the longest time that a drain may take, not counting a call of Sink.Execute that blocks, and Leave. A
	// drain that reaches it leaves the rest to other members.
	Bound time.Duration
}

// Run steps the core until ctx ends, drains, and returns nil. It returns nil at once when lifetime ends, and the error
// when the source, the sink or the drainer fails. lifetime must not end before ctx for a drain to take place. Run may
// be called once at a time.
func (l *Loop[I, O]) Run(ctx, lifetime context.Context) error {
	working, cancel := context.WithCancel(ctx)
	defer cancel()
	// The source waits on one context, so that no service has to select on two.
	defer context.AfterFunc(lifetime, cancel)()
	for ctx.Err() == nil && lifetime.Err() == nil {
		if err := l.turn(working, lifetime, false); err != nil {
			return err
		}
	}
	if lifetime.Err() != nil || l.Drainer == nil {
		return nil
	}
	return l.drain(lifetime)
}

// drain steps the drain input, and then goes on until the service is idle or the bound has passed. Idleness is checked
// first: a service that becomes idle just in time has lost nothing, and must not report that it was late.
func (l *Loop[I, O]) drain(lifetime context.Context) error {
	bounded, expire := context.WithCancel(lifetime)
	timer := l.Clock.NewTimer(l.Bound)
	// The timer is of the injected clock, so context.WithTimeout cannot stand for it. The goroutine only ends the
	// context on which the source waits.
	var watch sync.WaitGroup
	watch.Go(func() {
		defer timer.Stop()
		select {
		case <-timer.C():
			expire()
		case <-bounded.Done():
		}
	})
	defer watch.Wait()
	defer expire()
	err := l.step(lifetime, Event[I]{Inputs: []I{l.Drainer.Drain()}}, true)
	for err == nil {
		switch {
		case lifetime.Err() != nil:
			return nil
		case l.Drainer.Idle():
			return l.Drainer.Leave(lifetime, false)
		case bounded.Err() != nil:
			return l.Drainer.Leave(lifetime, true)
		}
		err = l.turn(bounded, lifetime, true)
	}
	return err
}

// turn waits for one event and steps it. wait is the context of the source. An event that the source has received is
// always stepped, even if wait has ended since: it is in no channel any more.
func (l *Loop[I, O]) turn(wait, lifetime context.Context, draining bool) error {
	event, err := l.Source.Next(wait)
	if err != nil {
		return err
	}
	return l.step(lifetime, event, draining)
}

// step answers the question of an event, steps its inputs, and publishes.
func (l *Loop[I, O]) step(lifetime context.Context, event Event[I], draining bool) error {
	if event.Query != nil {
		event.Query()
	}
	if len(event.Inputs) == 0 {
		return nil
	}
	for _, in := range event.Inputs {
		now := l.Clock.Now()
		taken := Step[I, O]{Input: in, Output: l.Core.Step(in, now), At: now}
		if err := l.Sink.Execute(lifetime, taken); err != nil {
			if lifetime.Err() != nil {
				return nil
			}
			return err
		}
	}
	clear(event.Inputs)
	l.Sink.Publish(draining)
	return nil
}
