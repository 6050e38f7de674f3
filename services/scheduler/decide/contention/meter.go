package contention

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/services/scheduler/decide/txn"
)

// Meter is the estimate of one shard. Two shards collide if they choose the same node before either sees the choice of
// the other. That takes decisions that are made at the same time, so the rate of the other shards does not matter, but
// whether they reserve something between a decision of this shard and its answer: pods that come one after the other
// overlap with nothing, however fast they come.
type Meter struct {
	shard string
	// others counts the reservations of other shards that the ledger has shown, sentAt is the count when the
	// transaction in flight was sent.
	others, sentAt uint64
	// inFlight: a transaction has been sent and not answered yet.
	inFlight bool
	// heat is the share of the last transactions that overlapped with reservations of other shards, in parts of full; a
	// lost race adds to it. hot is what it has been decided to mean.
	heat int
	hot  bool
	// last is when the last transaction overlapped, or lost a race.
	last time.Time
}

const (
	// full is the heat of a shard whose every transaction overlaps.
	full = 1024
	// memory is over how many transactions the heat averages.
	memory = 8
	// hotAt and calmAt are the heat at which a shard begins, and ceases, to be contended. They are apart, as a shard that
	// avoids collisions sees fewer of them. From no heat at all, six transactions that overlap make a shard hot, or two
	// lost races; ten that do not make it calm again.
	hotAt, calmAt = full / 2, full / 8
	// perLoss is what a lost race adds: more than an overlap, which may be harmless.
	perLoss = full / 4
	// calmAfter is the time without an overlap after which a shard is calm, however few transactions it has sent. While
	// one is in flight, whether it overlaps is not known yet, however slow the ledger is.
	calmAfter = 200 * time.Millisecond
	// backlog is the number of waiting attempts beyond which a shard is contended: more than the transaction in flight
	// and the next one have room for. Pods are spread over shards by a hash, so that the others are as busy.
	backlog = txn.BatchPods
)

// New returns the meter of a shard that has seen nothing.
func New(shard string) *Meter { return &Meter{shard: shard} }

// FollowLedger counts the reservations of other shards in a change of the ledger's view.
func (m *Meter) FollowLedger(changes replica.Changes) {
	for i := range changes.Docs {
		d := &changes.Docs[i]
		for j := range d.After.Entries {
			e := &d.After.Entries[j]
			if e.Role != ledger.RoleReservation || e.Shard == m.shard {
				continue
			}
			if at := d.Before.Index(e.PodUID); at < 0 || d.Before.Entries[at].Token != e.Token {
				m.others++
			}
		}
	}
}

// Sent notes that a transaction with placements is sent.
func (m *Meter) Sent() { m.sentAt, m.inFlight = m.others, true }

// Answered notes that it has been answered. What the answer shows of the ledger must have been counted.
func (m *Meter) Answered(now time.Time) {
	m.inFlight = false
	m.heat -= m.heat / memory
	if m.others != m.sentAt {
		m.heat += full / memory
		m.last = now
	}
}

// Lost notes a lost race for a node.
func (m *Meter) Lost(now time.Time) {
	m.heat = min(m.heat+perLoss, full)
	m.last = now
}

// Contended reports whether a decision made now is likely to collide with one of another shard. waiting is how many
// attempts of this shard wait to be decided or sent.
func (m *Meter) Contended(waiting int, now time.Time) bool {
	switch {
	case !m.inFlight && now.Sub(m.last) >= calmAfter:
		m.heat, m.hot = 0, false
	case m.heat >= hotAt:
		m.hot = true
	case m.heat <= calmAt:
		m.hot = false
	}
	return m.hot || waiting > backlog
}
