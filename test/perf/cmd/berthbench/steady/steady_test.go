package steady

import (
	"testing"
	"time"

	"github.com/berth-scheduler/berth/test/perf/bench"
)

func TestGrowthLeavesTheWarmUpOut(t *testing.T) {
	var flat, leaking steady
	for i := range 60 {
		at := time.Duration(i) * time.Minute
		resident := int64(100 * megabyte)
		if i < 10 {
			resident = int64(10*i) * megabyte
		}
		flat.samples = append(flat.samples, sample{At: at, Resident: resident, CPU: at / 50})
		leaking.samples = append(leaking.samples, sample{At: at, Resident: resident + int64(i)*megabyte})
	}
	if percent, settled := flat.growth(); percent != 0 || settled != 100*megabyte {
		t.Errorf("flat memory grows by %v%% from %v", percent, settled)
	}
	if percent, _ := leaking.growth(); percent < 30 || percent > 40 {
		t.Errorf("a megabyte a minute is %v%%, want about 35%%", percent)
	}
	w := watch{options: options{standing: 10}}
	flat.load = turnover{Created: 600, Bound: 599, Deleted: 590, Took: time.Minute}
	o := w.outcome(flat, bench.Head{Berth: "berth x"})
	if cpu := o.Values["cpuPercent"]; cpu < 1.99 || cpu > 2.01 {
		t.Errorf("%v%% of a core, want 2%%", cpu)
	}
	if o.Values["residentMB"] != 100 || o.Values["boundPerSecond"] < 9.9 {
		t.Errorf("values %v", o.Values)
	}
}

func TestBadCommandLinesAreRefused(t *testing.T) {
	for _, bad := range []string{"--for=1s", "--rate=-1", "--standing=0"} {
		if err := bench.Parse(&options{}, bad); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}
