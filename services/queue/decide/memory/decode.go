package memory

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/berth-scheduler/berth/pkg/events"

	"github.com/berth-scheduler/berth/services/queue/decide/quota"
)

// Decode decodes what a Writer wrote. On an error there is nothing to use; the decisions log alone contains most of
// it.
func Decode(data []byte) (*Memory, error) {
	d := decoder{memory: &Memory{Leaving: map[string]quota.DecidedAt{}}}
	if err := fields(data, d.take); err != nil {
		return nil, fmt.Errorf("queue: memory: %w", err)
	}
	return d.memory, nil
}

// fields calls take with each field of a message.
func fields(data []byte, take func(field protowire.Number, number uint64, bytes []byte) error) error {
	for len(data) > 0 {
		field, number, bytes, n := consume(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		data = data[n:]
		if err := take(field, number, bytes); err != nil {
			return err
		}
	}
	return nil
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

// decoder decodes one memory. texts are the texts that pods refer to by number, from 1.
type decoder struct {
	memory *Memory
	texts  []string
}

// take applies one field of a memory. Texts come before the pods that refer to them, as the Writer has written them.
func (d *decoder) take(field protowire.Number, number uint64, bytes []byte) error {
	m := d.memory
	switch field {
	case versionField:
		if number != version {
			return fmt.Errorf("version is %d, want %d", number, version)
		}
	case decisionsField:
		m.Decisions = number
	case factsField:
		m.Facts = number
	case epochField:
		m.Epoch = number
	case ledgerField:
		m.Ledger = int64(number)
	case textField:
		d.texts = append(d.texts, string(bytes))
	case liveField:
		m.Live = append(m.Live, string(bytes))
	case podField:
		return d.takePod(bytes)
	case leavingField:
		return d.takeLeaving(bytes)
	case storedField:
		m.Stored = time.Unix(0, int64(number))
	case completeField:
		m.Complete = number != 0
	}
	return nil
}

// takeLeaving decodes a pod that was let go.
func (d *decoder) takeLeaving(data []byte) error {
	uid, decided := "", quota.DecidedAt{}
	err := fields(data, func(field protowire.Number, number uint64, bytes []byte) error {
		switch field {
		case leavingUIDField:
			uid = string(bytes)
		case leavingFactsField:
			decided.Sequence = number
		case leavingEpochField:
			decided.Epoch = number
		}
		return nil
	})
	if err != nil {
		return err
	}
	if uid == "" {
		return errors.New("a pod that was let go has no uid")
	}
	d.memory.Leaving[uid] = decided
	return nil
}

// takePod decodes a pod.
func (d *decoder) takePod(data []byte) error {
	var p Pod
	err := fields(data, func(field protowire.Number, number uint64, bytes []byte) error {
		if field == podUIDField {
			p.UID = string(bytes)
			return nil
		}
		d.takeNumber(&p, field, number)
		return nil
	})
	if err != nil {
		return err
	}
	if p.UID == "" {
		return errors.New("a pod has no uid")
	}
	p.Plugins = slices.Clip(p.Plugins)
	d.memory.Pods = append(d.memory.Pods, p)
	return nil
}

// takeNumber applies a field of a pod that is a number, or the number of a text.
func (d *decoder) takeNumber(p *Pod, field protowire.Number, number uint64) {
	switch field {
	case podAttemptsField:
		p.Attempts = int32(number)
	case podAnsweredField:
		p.Answered = int32(number)
	case podLostField:
		p.Lost = int16(number)
	case podReleasedField:
		p.Released = int16(number)
	case podRejectionsField:
		p.Rejections = int32(number)
	case podErrorsField:
		p.Errors = int32(number)
	case podKindField:
		p.Kind = events.DecisionKind(d.referred(number))
	case podMessageField:
		p.Message = d.referred(number)
	case podPluginField:
		p.Plugins = append(p.Plugins, d.referred(number))
	case podFactsField:
		p.Facts = number
	case podLedgerField:
		p.Ledger = int64(number)
	case podParkedField:
		p.Parked = number != 0
	case podWaitsField:
		p.Waits = number != 0
	case podVersionField:
		p.Version = number
	}
}

// referred returns the text of a number; empty for none.
func (d *decoder) referred(number uint64) string {
	if number == 0 || number > uint64(len(d.texts)) {
		return ""
	}
	return d.texts[number-1]
}
