package upstreamflags

import "slices"

// Flag is a flag of an upstream program that Berth does not have.
type Flag struct {
	// Name is without dashes; Shorthand is one letter, empty for most flags.
	Name, Shorthand string
	// Switch means that the flag may stand without a value, as Booleans do.
	Switch bool
	// Answer names what replaces the flag, or why it is not needed.
	Answer string
	// Ignored means that a process starts without the flag, with a warning. Otherwise it is refused.
	Ignored bool
}

// Same returns the names of the flags that Berth has too, with the same meaning. The caller owns the list.
func Same() []string {
	return []string{"config", "descheduling-interval", "help", "kubeconfig", "profiling"}
}

// KubeScheduler returns the flags of kube-scheduler that Berth does not have. The caller owns the list.
func KubeScheduler() []Flag { return slices.Concat(scheduler, delegation, serving, election, logging) }

// Descheduler returns the flags of the descheduler that Berth does not have. The caller owns the list.
func Descheduler() []Flag { return slices.Concat(descheduler, serving, election, logging) }

// refuse returns flags with a value that are refused.
func refuse(answer string, names ...string) []Flag { return flags(Flag{Answer: answer}, names) }

// ignore returns flags with a value that are ignored.
func ignore(answer string, names ...string) []Flag {
	return flags(Flag{Answer: answer, Ignored: true}, names)
}

// switches returns the same flags as Booleans.
func switches(list []Flag) []Flag {
	for i := range list {
		list[i].Switch = true
	}
	return list
}

// flags returns a flag like f for each name.
func flags(f Flag, names []string) []Flag {
	list := make([]Flag, 0, len(names))
	for _, f.Name = range names {
		list = append(list, f)
	}
	return list
}
