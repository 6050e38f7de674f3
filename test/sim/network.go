package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger/mem"
)

// errUnknown is the error of a call without an answer: it may have been carried out, or may still be.
var errUnknown = errors.New("sim: no answer in time")

// dependency is the system that a call addresses.
type dependency uint8

const (
	toEtcd dependency = iota
	toAPI
	toLog
	dependencies
)

func (d dependency) String() string { return [...]string{"etcd", "api", "log"}[d] }

// call is one request on its way. carry carries it out, onResult receives the result; each runs as a step of its own,
// so that anything may happen in between.
type call struct {
	who  *proc
	life int
	to   dependency
	what string
	// store is the ledger's when it was sent.
	store *mem.Store

	carry    func() (any, error)
	onResult func(result any, err error) error

	done   bool
	result any
	err    error
	// late: the caller has given up.
	late bool
	sent time.Duration
	// until is when it arrives, at the earliest.
	until time.Duration
}

// network holds the calls under way.
type network struct {
	calls []*call
	// late are appends to the log whose sender does not wait any more.
	lateAppends []func()
}

// send puts a call on its way.
func (w *world) send(c *call) {
	c.life, c.sent, c.store = c.who.life, w.now, w.store
	w.calls = append(w.calls, c)
}

// stepCall moves one random call on.
func (w *world) stepCall() error {
	if len(w.calls) == 0 {
		return nil
	}
	i := w.rng.IntN(len(w.calls))
	c := w.calls[i]
	if c.to == toAPI && !c.done && w.apiAway() {
		c.fail()
	}
	switch {
	case c.to == toEtcd && c.store != w.store:
		return w.arriveElsewhere(i, c)
	case c.late:
		return w.arriveLate(i, c)
	case !c.alive():
		return w.afterDeath(i, c)
	case c.who.paused(), w.now < c.who.slow, w.now < c.until && !c.done:
		return nil
	case c.done:
		w.drop(i)
		return c.onResult(c.result, c.err)
	}
	return w.carryOut(i, c)
}

func (w *world) drop(i int) { w.calls = slices.Delete(w.calls, i, i+1) }

func (c *call) alive() bool { return c.who.up && c.who.life == c.life }

// afterDeath handles a call whose sender has died: it is dropped or carried out.
func (w *world) afterDeath(i int, c *call) error {
	w.drop(i)
	if c.done {
		w.hit("crash after " + c.what)
		return nil
	}
	if w.chance(40) {
		w.hit("crash before " + c.what)
		return nil
	}
	w.hit("crash during " + c.what)
	return c.runUnanswered()
}

// arriveElsewhere handles a call to a store that no longer exists: its sender finds that out, or the call reaches the
// store that has taken its place.
func (w *world) arriveElsewhere(i int, c *call) error {
	w.drop(i)
	if !c.done && w.chance(70) {
		w.hit("transaction carried out by a store that began anew")
		if err := c.runUnanswered(); err != nil {
			return err
		}
	}
	if c.alive() {
		c.who.noticeReplacedStore()
	}
	return w.broke
}

// arriveLate handles a call that its sender has given up: it stays under way for long, and then it is carried out or
// lost.
func (w *world) arriveLate(i int, c *call) error {
	if w.faults.on && !w.chance(8) {
		return nil
	}
	w.drop(i)
	if w.chance(25) || w.now-c.sent > lateLimit {
		return nil
	}
	w.hit("late " + c.to.String() + " call carried out")
	return c.runUnanswered()
}

// runUnanswered carries out a call whose answer no process awaits.
func (c *call) runUnanswered() error {
	if _, err := c.carry(); errors.Is(err, errBroken) {
		return err
	}
	return nil
}

// crashesDuring reports whether the caller dies at this very point: the more rarely such a call is made,
// the likelier.
func (w *world) crashesDuring(c *call) bool {
	percent := max(1, rare[c.what])
	if !w.faults.on || !w.chance(percent) {
		return false
	}
	if w.chance(33) {
		// It has been carried out, and its sender is no longer there to receive the answer.
		_ = c.runUnanswered() // the oracle notes violations
		c.done = true
	}
	c.who.crash()
	return true
}

// rare are the calls that most runs make a few times at most, and how many of a hundred end
// their caller.
var rare = map[string]int{
	"T5": 20, "T6": 8, "T7": 8, "T11": 80, "T12": 12, "fence": 8, "condition": 8,
	"T13": 8, "T15": 15, "T16": 85, "claim": 3, "settle": 35,
}

// carryOut draws the fate of a call.
func (w *world) carryOut(i int, c *call) error {
	if w.faults.on && w.chance(w.faults.slow) {
		return nil // not yet
	}
	if w.crashesDuring(c) {
		return w.afterDeath(i, c)
	}
	unreachable := w.down(c.who, c.to)
	switch {
	case unreachable && w.chance(50), w.fault(3, "request to "+c.to.String()+" lost"):
		w.drop(i)
		return c.onResult(nil, errUnknown)
	case unreachable, w.fault(w.lateness(c), "request to "+c.to.String()+" late"):
		c.late = true
		return c.onResult(nil, errUnknown)
	}
	result, err := c.carry()
	if errors.Is(err, errBroken) {
		return err
	}
	if w.fault(4, "answer of "+c.to.String()+" lost") {
		w.drop(i)
		return c.onResult(nil, errUnknown)
	}
	c.done, c.result, c.err = true, result, err
	if w.faults.on && w.chance(30) {
		return nil
	}
	w.drop(i)
	return c.onResult(result, err)
}

// lateness returns how many percent of calls like c arrive after their caller has given up.
func (w *world) lateness(c *call) int {
	if w.mutant.lateBinds && c.what == "bind" {
		return 25
	}
	return 3
}

// down reports whether a process cannot reach something now: it is cut off, or etcd is without
// a leader.
func (w *world) down(p *proc, to dependency) bool {
	if to == toEtcd && w.now < w.faults.leaderless {
		w.hit("etcd without a leader: outcome unknown")
		return true
	}
	return w.now < p.cut[to] || to == toAPI && w.apiAway()
}

// message is one hint on the bus.
type message struct {
	to      string
	deliver func() error
}

// bus carries hints: each arrives once, twice or never, in any order.
type bus struct{ messages []message }

func (w *world) publish(m message) {
	if w.fault(5, "hint lost") {
		return
	}
	w.messages = append(w.messages, m)
	if w.fault(4, "hint repeated") {
		w.messages = append(w.messages, m)
	}
}

// stepBus delivers one hint: the oldest, or any.
func (w *world) stepBus() error {
	if len(w.messages) == 0 {
		return nil
	}
	i := 0
	if w.fault(15, "hint overtaken") {
		i = w.rng.IntN(len(w.messages))
	}
	m := w.messages[i]
	w.messages = slices.Delete(w.messages, i, i+1)
	return m.deliver()
}
