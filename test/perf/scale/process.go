package scale

import "time"

// machine is the processors that processes share: a job runs on one of them to its end. Processes
// take turns, so that one with a long queue does not keep the others waiting longer than a job takes.
type machine struct {
	clock *clock
	// free is the number of idle processors; negative if there are so many that no process waits.
	free  int
	ready []*process
}

// process is a server with a queue of its own.
type process struct {
	name    string
	machine *machine
	// width is how many of its jobs may run at the same time; running are those that do, called
	// those whose turn it is.
	width, running, called int
	jobs                   []job
	// busy is the processor time spent so far.
	busy time.Duration
}

type job struct {
	cost time.Duration
	then func()
}

func (m *machine) process(name string, width int) *process {
	return &process{name: name, machine: m, width: width}
}

// do has the process spend some time, and then something happen.
func (p *process) do(cost time.Duration, then func()) {
	p.jobs = append(p.jobs, job{cost, then})
	p.call()
	p.machine.dispatch()
}

// call lines the process up for a processor if it has use for one more.
func (p *process) call() {
	if p.called < len(p.jobs) && p.running+p.called < p.width {
		p.called++
		p.machine.ready = append(p.machine.ready, p)
	}
}

// dispatch starts what can be started, in the order in which it became ready.
func (m *machine) dispatch() {
	for m.free != 0 && len(m.ready) > 0 {
		p := m.ready[0]
		m.ready = m.ready[1:]
		p.called--
		m.start(p)
	}
}

func (m *machine) start(p *process) {
	j := p.jobs[0]
	p.jobs = p.jobs[1:]
	p.running++
	p.busy += j.cost
	m.free--
	m.clock.after(j.cost, func() {
		p.running--
		m.free++
		p.call()
		j.then()
		m.dispatch()
	})
}

// utilisation is the share of its time that the process was busy, up to now.
func (p *process) utilisation() float64 {
	if p.machine.clock.now == 0 {
		return 0
	}
	return float64(p.busy) / float64(p.machine.clock.now) / float64(p.width)
}
