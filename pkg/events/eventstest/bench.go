package eventstest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/frame"
)

// benchObject is about the size of a stripped pod.
const benchObject = 600

// Bench measures appends of several sizes, fenced and not, and reading. open returns a
// fresh log.
func Bench(b *testing.B, open func(b *testing.B) eventlog.Log) {
	msgs := messages(1, 512)
	for i := range msgs {
		msgs[i].Data = make([]byte, benchObject)
	}
	for _, size := range []int{1, 64, 512} {
		b.Run(fmt.Sprintf("fenced/batch=%d", size), func(b *testing.B) {
			log := open(b)
			var tail eventlog.Tail
			for b.Loop() {
				last, err := log.Append(within(b), eventlog.Facts, tail, msgs[:size])
				if err != nil {
					b.Fatal(err)
				}
				tail = frame.Tail(log.Frames(eventlog.Facts), last, msgs[:size])
			}
			perSecond(b, size*b.N)
		})
	}
	for _, size := range []int{1, 16, 63, 512} {
		b.Run(fmt.Sprintf("unfenced/batch=%d", size), func(b *testing.B) {
			log := open(b)
			batch := slices.Repeat([]eventlog.Message{decision("a")}, size)
			for b.Loop() {
				mustAppend(b, log, eventlog.Decisions, anywhere, batch)
			}
			perSecond(b, size*b.N)
		})
	}
	b.Run("unfenced/callers=16", func(b *testing.B) {
		const callers = 16
		log := open(b)
		for b.Loop() {
			var group sync.WaitGroup
			for range callers {
				group.Go(func() {
					mustAppend(b, log, eventlog.Decisions, anywhere, []eventlog.Message{decision("a")})
				})
			}
			group.Wait()
		}
		perSecond(b, callers*b.N)
	})
	for _, size := range []int{1, 16, 64, 512} {
		b.Run(fmt.Sprintf("read/batch=%d", size), func(b *testing.B) { benchRead(b, open(b), msgs[:size]) })
	}
}

// benchRead reads what was appended in batches, and decodes it.
func benchRead(b *testing.B, log eventlog.Log, msgs []eventlog.Message) {
	const records = 10 * 512
	for range records / len(msgs) {
		mustAppend(b, log, eventlog.Facts, anywhere, msgs)
	}
	for b.Loop() {
		r := mustRead(b, log, eventlog.Facts, 1)
		for _, record := range take(b, r, records) {
			if _, err := events.DecodeFact(record); err != nil {
				b.Fatal(err)
			}
		}
		r.Close()
	}
	perSecond(b, records*b.N)
	b.ReportMetric(b.Elapsed().Seconds()*1e6/float64(records*b.N), "µs/fact")
}

// mostForMany bounds an append of 64 facts, in appends of one; enough is how many of each are needed to say so.
const (
	mostForMany = 5
	enough      = 50
)

// BenchMany compares an append of 64 facts with an append of one, alternating, and fails if it takes more than
// mostForMany times as long. `make bench` runs it.
func BenchMany(b *testing.B, log eventlog.Log) {
	msgs := messages(1, 64)
	for i := range msgs {
		msgs[i].Data = make([]byte, benchObject)
	}
	var tail eventlog.Tail
	took := map[int][]time.Duration{}
	for b.Loop() {
		for _, size := range []int{1, len(msgs)} {
			begin := time.Now()
			last, err := log.Append(within(b), eventlog.Facts, tail, msgs[:size])
			if err != nil {
				b.Fatal(err)
			}
			took[size] = append(took[size], time.Since(begin))
			tail = frame.Tail(log.Frames(eventlog.Facts), last, msgs[:size])
		}
	}
	median := func(size int) float64 {
		slices.Sort(took[size])
		return float64(took[size][len(took[size])/2])
	}
	ratio := median(len(msgs)) / median(1)
	b.ReportMetric(median(1)/1e3, "µs/one")
	b.ReportMetric(median(len(msgs))/1e3, "µs/64")
	b.ReportMetric(ratio, "64/one")
	if len(took[1]) >= enough && ratio > mostForMany {
		b.Errorf("an append of 64 facts takes as long as %.1f of one, want at most %d", ratio, mostForMany)
	}
}

func perSecond(b *testing.B, messages int) {
	b.ReportMetric(float64(messages)/b.Elapsed().Seconds(), "msgs/s")
}
