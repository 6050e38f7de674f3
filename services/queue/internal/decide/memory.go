package decide

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/berth-scheduler/berth/pkg/events"

	"github.com/berth-scheduler/berth/services/queue/internal/quota"
)

// A leader that stops in an orderly way writes down what it knows of the attempts: how often each pod was tried, and
// that nothing up to its position in the facts and the ledger can help the parked ones. The decisions log contains
// all of that except the last part, which saves a start from trying every parked pod again. The memory also names the
// pods that were let go through the quota gate, because the log is read only from the memory's position on.
//
// A memory is one protobuf message:
//
//	message Memory {
//	  uint64 version = 1;           // first, so that a reader can refuse before it trusts the rest
//	  uint64 decisions = 2;         // sequences and revision that it stands for
//	  uint64 facts = 3;
//	  uint64 ledger = 4;
//	  repeated string texts = 5;    // pods refer to them by number, from 1
//	  repeated string live = 6;     // UIDs of pods with a reservation
//	  repeated Pod pods = 7;
//	  uint64 epoch = 8;             // of the facts
//	  repeated Leaving leaving = 9; // pods that were let go and still have their quota gate
//	  bool complete = 10;           // all of them are named; earlier versions name none
//	  uint64 stored = 11;           // when the log stored the record of decisions, in nanoseconds since 1970
//	}
//	message Leaving { string uid = 1; uint64 facts = 2, epoch = 3; }
//	message Pod {
//	  string uid = 1; uint64 attempts = 2, lost = 3, rejections = 4, errors = 5, released = 6;
//	  uint64 kind = 7, message = 8; repeated uint64 plugins = 9;   // numbers of texts
//	  uint64 facts = 10, ledger = 11; bool parked = 12, waits = 13; uint64 version = 14;
//	  uint64 answered = 15;
//	}
const memoryVersion = 1

const (
	memoryVersionField   = protowire.Number(1)
	memoryDecisionsField = protowire.Number(2)
	memoryFactsField     = protowire.Number(3)
	memoryLedgerField    = protowire.Number(4)
	memoryTextField      = protowire.Number(5)
	memoryLiveField      = protowire.Number(6)
	memoryPodField       = protowire.Number(7)
	memoryEpochField     = protowire.Number(8)
	memoryLeavingField   = protowire.Number(9)
	memoryCompleteField  = protowire.Number(10)
	memoryStoredField    = protowire.Number(11)
)

const (
	leavingUIDField = protowire.Number(iota + 1)
	leavingFactsField
	leavingEpochField
)

const (
	podUIDField = protowire.Number(iota + 1)
	podAttemptsField
	podLostField
	podRejectionsField
	podErrorsField
	podReleasedField
	podKindField
	podMessageField
	podPluginField
	podFactsField
	podLedgerField
	podParkedField
	podWaitsField
	podVersionField
	podAnsweredField
	podFields
)

// Remember encodes what the core knows of attempts. decisions is the sequence of the decisions log up to which it
// does.
func (c *Core) Remember() (data []byte, decisions uint64) {
	w := memoryWriter{texts: map[string]uint64{}}
	w.number(memoryVersionField, memoryVersion)
	w.number(memoryDecisionsField, c.history.sequence)
	if !c.history.stored.IsZero() {
		w.number(memoryStoredField, uint64(c.history.stored.UnixNano()))
	}
	w.number(memoryFactsField, c.world.facts.Sequence)
	w.number(memoryEpochField, c.world.facts.Epoch)
	w.number(memoryLedgerField, uint64(c.world.revision))
	for uid := range c.world.live {
		w.text(memoryLiveField, uid)
	}
	for uid, e := range c.pods {
		if e.attempt.count > 0 || e.attempt.lost > 0 || e.attempt.released > 0 {
			w.pod(uid, e, e.in == c.bags.parked)
		}
	}
	for uid, decided := range c.quotas.Leaving() {
		w.leaving(uid, decided)
	}
	w.number(memoryCompleteField, 1)
	return w.data, c.history.sequence
}

type memoryWriter struct {
	data  []byte
	texts map[string]uint64
}

func (w *memoryWriter) number(field protowire.Number, v uint64) {
	if v != 0 {
		w.data = protowire.AppendTag(w.data, field, protowire.VarintType)
		w.data = protowire.AppendVarint(w.data, v)
	}
}

func (w *memoryWriter) text(field protowire.Number, v string) {
	w.data = protowire.AppendTag(w.data, field, protowire.BytesType)
	w.data = protowire.AppendString(w.data, v)
}

// refer returns the number of a text, 0 for the empty text, and writes the text first if it is new.
func (w *memoryWriter) refer(text string) uint64 {
	if text == "" {
		return 0
	}
	n, ok := w.texts[text]
	if !ok {
		n = uint64(len(w.texts)) + 1
		w.texts[text] = n
		w.text(memoryTextField, text)
	}
	return n
}

func (w *memoryWriter) leaving(uid string, decided quota.DecidedAt) {
	var p memoryWriter
	p.text(leavingUIDField, uid)
	p.number(leavingFactsField, decided.Sequence)
	p.number(leavingEpochField, decided.Epoch)
	w.data = protowire.AppendTag(w.data, memoryLeavingField, protowire.BytesType)
	w.data = protowire.AppendBytes(w.data, p.data)
}

func (w *memoryWriter) pod(uid string, e *entry, parked bool) {
	v := &e.verdict
	kind, message := w.refer(string(v.kind)), w.refer(v.message)
	plugins := make([]uint64, len(v.plugins))
	for i, p := range v.plugins {
		plugins[i] = w.refer(p)
	}
	var p memoryWriter
	p.text(podUIDField, uid)
	p.number(podAttemptsField, uint64(e.attempt.count))
	p.number(podAnsweredField, uint64(e.attempt.answered))
	p.number(podLostField, uint64(e.attempt.lost))
	p.number(podRejectionsField, uint64(v.rejections))
	p.number(podErrorsField, uint64(v.errors))
	p.number(podReleasedField, uint64(e.attempt.released))
	p.number(podKindField, kind)
	p.number(podMessageField, message)
	for _, n := range plugins {
		p.number(podPluginField, n)
	}
	p.number(podFactsField, v.factSequence)
	p.number(podLedgerField, uint64(v.ledgerRevision))
	p.number(podParkedField, protowire.EncodeBool(parked))
	p.number(podWaitsField, protowire.EncodeBool(e.await.on))
	p.number(podVersionField, e.await.version)
	w.data = protowire.AppendTag(w.data, memoryPodField, protowire.BytesType)
	w.data = protowire.AppendBytes(w.data, p.data)
}

// Remembered is a memory as an input, for a core that knows nothing yet.
type Remembered struct{ memory *memory }

type memory struct {
	decisions, facts, epoch, ledger uint64
	texts                           []string
	live                            []string
	pods                            []rememberedPod
	leaving                         map[string]quota.DecidedAt
	complete                        bool
	stored                          time.Time
}

type rememberedPod struct {
	uid     string
	numbers [podFields]uint64
	plugins []string
}

// Recall decodes what Remember wrote. On an error there is nothing to use; the decisions log alone contains most of
// it.
func Recall(data []byte) (Remembered, error) {
	m := &memory{leaving: map[string]quota.DecidedAt{}}
	for len(data) > 0 {
		field, number, bytes, n := consume(data)
		if n < 0 {
			return Remembered{}, fmt.Errorf("queue: memory: %w", protowire.ParseError(n))
		}
		data = data[n:]
		if err := m.take(field, number, bytes); err != nil {
			return Remembered{}, fmt.Errorf("queue: memory: %w", err)
		}
	}
	return Remembered{memory: m}, nil
}

// consume reads one field; n < 0 is an error. Fields of other types are skipped and returned as zeros.
func consume(data []byte) (field protowire.Number, number uint64, bytes []byte, n int) {
	field, kind, tag := protowire.ConsumeTag(data)
	if tag < 0 {
		return 0, 0, nil, tag
	}
	switch kind {
	case protowire.VarintType:
		number, n = protowire.ConsumeVarint(data[tag:])
	case protowire.BytesType:
		bytes, n = protowire.ConsumeBytes(data[tag:])
	default:
		n = protowire.ConsumeFieldValue(field, kind, data[tag:])
	}
	if n < 0 {
		return 0, 0, nil, n
	}
	return field, number, bytes, tag + n
}

func (m *memory) take(field protowire.Number, number uint64, bytes []byte) error {
	switch field {
	case memoryVersionField:
		if number != memoryVersion {
			return fmt.Errorf("version is %d, want %d", number, memoryVersion)
		}
	case memoryDecisionsField:
		m.decisions = number
	case memoryFactsField:
		m.facts = number
	case memoryEpochField:
		m.epoch = number
	case memoryLedgerField:
		m.ledger = number
	case memoryTextField:
		m.texts = append(m.texts, string(bytes))
	case memoryLiveField:
		m.live = append(m.live, string(bytes))
	case memoryPodField:
		return m.takePod(bytes)
	case memoryLeavingField:
		return m.takeLeaving(bytes)
	case memoryStoredField:
		m.stored = time.Unix(0, int64(number))
	case memoryCompleteField:
		m.complete = number != 0
	}
	return nil
}

func (m *memory) takeLeaving(data []byte) error {
	uid, decided := "", quota.DecidedAt{}
	for len(data) > 0 {
		field, number, bytes, n := consume(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		data = data[n:]
		switch field {
		case leavingUIDField:
			uid = string(bytes)
		case leavingFactsField:
			decided.Sequence = number
		case leavingEpochField:
			decided.Epoch = number
		}
	}
	if uid == "" {
		return errors.New("a pod that was let go has no uid")
	}
	m.leaving[uid] = decided
	return nil
}

func (m *memory) takePod(data []byte) error {
	var p rememberedPod
	for len(data) > 0 {
		field, number, bytes, n := consume(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		data = data[n:]
		switch {
		case field == podUIDField:
			p.uid = string(bytes)
		case field == podPluginField:
			p.plugins = append(p.plugins, m.referred(number))
		case int(field) < len(p.numbers):
			p.numbers[field] = number
		}
	}
	if p.uid == "" {
		return errors.New("a pod has no uid")
	}
	m.pods = append(m.pods, p)
	return nil
}

// referred returns the text of a number; empty for none.
func (m *memory) referred(number uint64) string {
	if number == 0 || number > uint64(len(m.texts)) {
		return ""
	}
	return m.texts[number-1]
}

// Decisions returns the sequence of the decisions log that the memory stands for.
func (in Remembered) Decisions() uint64 { return in.memory.decisions }

// Stored returns when the log stored the record of Decisions; zero if that is not known.
func (in Remembered) Stored() time.Time { return in.memory.stored }

// Complete reports whether the memory names the pods that were let go. If it does not, the decisions from before it
// must be read too, as far back as they are kept; of those, only decisions to let pods go count.
func (in Remembered) Complete() bool { return in.memory.complete }

func (in Remembered) apply(c *Core, now moment) {
	if c.history.primed || c.world.revision != 0 {
		return
	}
	m := in.memory
	c.history.sequence, c.history.stored = m.decisions, m.stored
	c.history.remembered = true
	if !m.complete {
		c.history.recalled = m.decisions
	}
	for uid, decided := range m.leaving {
		c.quotas.Recall(uid, decided, c.timeOf(now))
	}
	c.world.revision = int64(m.ledger)
	for _, uid := range m.live {
		c.world.live[uid] = nil
	}
	for i := range m.pods {
		c.history.ghosts[m.pods[i].uid] = m.ghost(&m.pods[i], c.clockWait(now))
	}
}

// clockWait returns the moment until which to wait for a condition that was already awaited when the memory was
// written.
func (c *Core) clockWait(now moment) moment { return now.add(c.cfg.ConditionWait) }

func (m *memory) ghost(p *rememberedPod, until moment) *entry {
	n := &p.numbers
	e := &entry{}
	e.attempt.count, e.attempt.answered = int32(n[podAttemptsField]), int32(n[podAnsweredField])
	e.attempt.lost, e.attempt.released = int16(n[podLostField]), int16(n[podReleasedField])
	e.verdict = verdict{
		kind:       events.DecisionKind(m.referred(n[podKindField])),
		rejections: int32(n[podRejectionsField]), errors: int32(n[podErrorsField]),
		message: m.referred(n[podMessageField]), plugins: slices.Clip(p.plugins),
		factSequence: n[podFactsField], factEpoch: m.epoch, ledgerRevision: int64(n[podLedgerField]),
	}
	if n[podParkedField] != 0 {
		// Nothing up to the memory's position could help it.
		e.verdict.remembered = true
		e.verdict.factSequence = max(e.verdict.factSequence, m.facts)
		e.verdict.ledgerRevision = max(e.verdict.ledgerRevision, int64(m.ledger))
	}
	if n[podWaitsField] != 0 {
		e.await = await{on: true, until: until, version: n[podVersionField]}
	}
	return e
}
