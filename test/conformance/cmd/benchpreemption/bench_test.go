package main

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/placement/placementbench"
)

// Every workload runs at a small size, and places its pods on both sides at about the same
// price.
func TestWorkloadsRun(t *testing.T) {
	for _, crowd := range placementbench.Crowds() {
		t.Run(crowd.Name, func(t *testing.T) {
			r, err := options{nodes: 60, preemptors: 60, box: time.Minute}.measure(t.Context(), crowd)
			if err != nil {
				t.Fatal(err)
			}
			if r.ours.placed != 60 || r.all.placed != 60-warmup || r.ours.victims == 0 {
				t.Errorf("%d placed by Berth at %d victims, %d by kube-scheduler", r.ours.placed, r.ours.victims, r.all.placed)
			}
			if ours, theirs := r.ours.victimsEach(), r.all.victimsEach(); ours > 1.25*theirs || theirs > 1.25*ours {
				t.Errorf("%.2f victims per preemptor, kube-scheduler %.2f", ours, theirs)
			}
		})
	}
}

func TestParseRefusesWhatCannotBe(t *testing.T) {
	for _, args := range [][]string{{"--nodes", "0"}, {"--preemptors", "-1"}, {"--box", "0s"}} {
		if _, err := parse(args); err == nil || !strings.Contains(err.Error(), args[0]) {
			t.Errorf("%v: %v, want an error that names the flag", args, err)
		}
	}
}
