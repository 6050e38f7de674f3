package effect

import "time"

// Machine is a piece of work that waits for the answer to its one effect in flight.
type Machine interface{ Answered(in Input) }

// Ops holds the effects in flight, and the effects of the present step. The zero Ops is empty.
type Ops struct {
	out     []Effect
	last    OpID
	running map[OpID]underWay
}

// underWay is an operation that waits for its answer, and the time when it was emitted.
type underWay struct {
	machine Machine
	since   time.Time
}

// Start registers an operation whose answer m waits for; the caller emits the effect with its id.
func (o *Ops) Start(m Machine, now time.Time) OpID {
	if o.running == nil {
		o.running = map[OpID]underWay{}
	}
	o.last++
	o.running[o.last] = underWay{m, now}
	return o.last
}

// Emit adds an effect to those of the present step.
func (o *Ops) Emit(e Effect) { o.out = append(o.out, e) }

// Emitted returns the effects of the present step, in order, and begins the next step.
func (o *Ops) Emitted() []Effect {
	out := o.out
	o.out = nil
	return out
}

// Answer hands the answer to the machine that waits for it, if one does.
func (o *Ops) Answer(op OpID, in Input) {
	w, ok := o.running[op]
	if !ok {
		return
	}
	delete(o.running, op)
	w.machine.Answered(in)
}

// Waiting returns the machine that waits for the answer to op; nil for none.
func (o *Ops) Waiting(op OpID) Machine { return o.running[op].machine }

// Since returns when op was emitted; zero if it is not in flight.
func (o *Ops) Since(op OpID) time.Time { return o.running[op].since }

// Running counts the effects whose answer is outstanding.
func (o *Ops) Running() int { return len(o.running) }
