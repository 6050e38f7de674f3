package eventstest

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
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
				tail = behind(last, msgs[:size])
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
	b.Run("read", func(b *testing.B) {
		const records = 50 * 512
		log := open(b)
		for n := range uint64(records / 512) {
			mustAppend(b, log, eventlog.Facts, n*512, msgs)
		}
		for b.Loop() {
			r := mustRead(b, log, eventlog.Facts, 1)
			take(b, r, records)
			r.Close()
		}
		perSecond(b, records*b.N)
	})
}

func perSecond(b *testing.B, messages int) {
	b.ReportMetric(float64(messages)/b.Elapsed().Seconds(), "msgs/s")
}
