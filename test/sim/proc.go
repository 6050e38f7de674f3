package sim

import (
	"fmt"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/mem"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
)

// The times of the simulated processes. Leases are those of production, other times are shorter.
const (
	// memberTTL is the lease of members.
	memberTTL = 4 * time.Second
	// keepAlive is how often a member renews its lease.
	keepAlive = time.Second
	// heartbeat is a shard's and the binders' tick.
	heartbeat = 500 * time.Millisecond
)

// proc is one process: what all of them have in common.
type proc struct {
	w    *world
	role string
	// n is its place, life how often it has been started, name its id in this life.
	n, life int
	name    string
	up      bool
	// draining: it has been asked to stop.
	draining bool

	interruptions
	// lagFacts and lagLedger are how likely one look at a stream finds nothing new.
	lagFacts, lagLedger int
	// skew and drift are its clock's: drift is per mille.
	skew  time.Duration
	drift int64
	// answered is the revision of the last transaction of this life that it knows to be carried out.
	answered int64
	// store is the store that it has worked with in this life.
	store *mem.Store
	lease
}

// interruptions are the moments until which something is wrong with a process.
type interruptions struct {
	// stopped: it does not run.
	stopped time.Duration
	// blind: its streams are silent, slow: its calls do not get through; its lease lives.
	blind, slow time.Duration
	// deaf: until then it receives nothing of the ledger.
	deaf time.Duration
	cut  [dependencies]time.Duration
}

// lease is a process's knowledge of its session.
type lease struct {
	id int64
	// renewed is when, by its own clock, the lease was last renewed; registering: a call is
	// under way.
	renewed     time.Time
	registering bool
	registered  bool
}

// member is the process's id, unique to its life.
func (p *proc) member() string { return p.name }

// base is the start of all clocks. Which moment that is does not matter.
var base = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// clock is the process's own time. No two processes' are the same.
func (p *proc) clock() time.Time {
	t := p.w.now
	return base.Add(p.skew + t + t*time.Duration(p.drift)/1000)
}

func (p *proc) paused() bool { return p.w.now < p.stopped }

func (p *proc) stalled() bool { return p.w.now < p.blind }

// begin starts a life; the caller resets what its kind of process has.
func (p *proc) begin() {
	p.life++
	p.name = fmt.Sprintf("%s-%d-%d", p.role, p.n, p.life)
	p.up, p.draining = true, false
	p.stopped, p.blind, p.slow, p.deaf = 0, 0, 0, 0
	p.lease, p.store, p.answered = lease{}, p.w.store, 0
	p.skew = time.Duration(p.w.rng.IntN(20_000)-10_000) * time.Millisecond
	p.drift = int64(p.w.rng.IntN(41)) - 20
	if p.skew != 0 {
		p.w.hit("clock skew")
	}
}

// keep is the process's work on its own lease: join, renew, notice that it is lost.
func (p *proc) keep() {
	w := p.w
	switch {
	case w.down(p, toEtcd):
		return
	case p.store != w.store:
		p.noticeReplacedStore()
		return
	case p.registering:
		return
	}
	now := p.clock()
	switch {
	case p.id != 0 && !w.leases.alive(p.id):
		// The server reports that.
		w.hit("lease lost, rejoined")
		p.lease = lease{}
	case p.id == 0:
		p.join()
	case now.Sub(p.renewed) >= keepAlive:
		p.renewed = now
		w.leases.renew(p.id, w.now)
	}
}

// join opens a session and makes the member known.
func (p *proc) join() {
	w := p.w
	session, err := w.store.OpenSession(w.ctx, memberTTL)
	if err != nil {
		w.note("form", "open a session: %v", err)
		return
	}
	value, err := roster.EncodeMember(roster.Member{ID: p.member(), Role: p.role, Started: base})
	if err != nil {
		w.note("form", "encode a member: %v", err)
		return
	}
	p.id, p.renewed, p.registering = session.Lease(), p.clock(), true
	w.leases.renew(p.id, w.now)
	txn := ledger.Txn{
		Compares: []ledger.Compare{{Key: roster.KeyMember(p.role, p.member()), Target: ledger.ModRevision}},
		Puts:     []ledger.Put{{Key: roster.KeyMember(p.role, p.member()), Value: value, Lease: p.id}},
	}
	w.transact(p, "join", txn, func(r ledger.TxnResult, err error) error {
		p.registering = false
		var refused *ledger.TxnError
		switch {
		case err == nil && r.Succeeded:
			p.registered = true
		case isRefused(err, &refused), err != nil, !r.Succeeded:
			// As pkg/membership does: the lease is given up, and with it the key.
			w.revoke(p.id)
			p.lease = lease{}
		}
		return nil
	})
}

// leave ends the session at once.
func (p *proc) leave() {
	if p.id != 0 {
		p.w.revoke(p.id)
	}
	p.up = false
}
