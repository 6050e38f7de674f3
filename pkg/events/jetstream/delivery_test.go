package jetstream_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/jetstream"
)

// processorTime returns what this process has used so far.
func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkDelivery is the processor time of one fact to one reader, of server, client and codec together, by how many
// facts an append has. A single run reads 100,000 facts.
func BenchmarkDelivery(b *testing.B) {
	const facts, object = 102400, 600
	for _, format := range []jetstream.Format{jetstream.FormatRecords, jetstream.FormatFrames} {
		for _, size := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%s/append=%d", format, size), func(b *testing.B) {
				n := newServer(b, nil)
				l := open(b, jetstream.Config{URLs: []string{n.url()}, Logger: quiet, Format: format})
				names := make([]string, size)
				for i := range names {
					names[i] = fmt.Sprint("0f1e2d3c-4b5a-6978-8796-", i)
				}
				msgs := pods(names...)
				for i := range msgs {
					msgs[i].Data = make([]byte, object)
				}
				if format == jetstream.FormatRecords {
					msgs = slices.Repeat(msgs, 512/size) // the same messages, which take less long to append together
				}
				for range facts / len(msgs) {
					if _, err := l.Append(b.Context(), eventlog.Facts, eventlog.AnySequence, msgs); err != nil {
						b.Fatal(err)
					}
				}
				before := processorTime(b)
				for b.Loop() {
					readAll(b, l, facts)
				}
				used := processorTime(b) - before
				b.ReportMetric(float64(used.Nanoseconds())/1e3/float64(facts*b.N), "cpu-µs/fact")
			})
		}
	}
}

// BenchmarkAbout is a search for one pod of 150,000 with three facts each, 300 MB, by how many facts an append has: in
// one of 16,384 buckets of records, or by the subjects of the frames.
func BenchmarkAbout(b *testing.B) {
	const all, facts, object = 150000, 3, 600
	for _, c := range []struct {
		format jetstream.Format
		size   int
	}{
		{jetstream.FormatRecords, 1000}, {jetstream.FormatFrames, 4}, {jetstream.FormatFrames, 16},
		{jetstream.FormatFrames, 64},
	} {
		b.Run(fmt.Sprintf("%s/append=%d", c.format, c.size), func(b *testing.B) {
			n := newServer(b, nil)
			l := open(b, jetstream.Config{URLs: []string{n.url()}, Logger: quiet, Format: c.format})
			names := make([]string, all)
			for i := range names {
				names[i] = fmt.Sprint("0f1e2d3c-4b5a-6978-8796-", i)
			}
			shuffle := rand.New(rand.NewPCG(1, 2))
			order := slices.Clone(names)
			for range facts {
				shuffle.Shuffle(all, func(i, j int) { order[i], order[j] = order[j], order[i] })
				for some := range slices.Chunk(order, c.size) {
					msgs := pods(some...)
					for i := range msgs {
						msgs[i].Data = make([]byte, object)
					}
					if _, err := l.Append(b.Context(), eventlog.Facts, eventlog.AnySequence, msgs); err != nil {
						b.Fatal(err)
					}
				}
			}
			runtime.GC()
			var memory runtime.MemStats
			runtime.ReadMemStats(&memory)
			before, at := processorTime(b), 0
			for b.Loop() {
				at = (at + 7919) % all
				found, err := l.About(b.Context(), eventlog.Facts, events.FactsAbout(events.KindPod, names[at]), 0)
				if err != nil || len(found) != facts {
					b.Fatalf("%d records, %v", len(found), err)
				}
			}
			b.ReportMetric(float64((processorTime(b)-before).Milliseconds())/float64(b.N), "cpu-ms/op")
			b.ReportMetric(float64(memory.HeapAlloc>>20), "MB-heap")
		})
	}
}

func readAll(b *testing.B, l *jetstream.Log, facts int) {
	r, err := l.Read(b.Context(), eventlog.Facts, 1)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	for read := 0; read < facts; {
		records, err := r.Next(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		for _, record := range records {
			if _, err := events.DecodeFact(record); err != nil {
				b.Fatal(err)
			}
		}
		read += len(records)
	}
}
