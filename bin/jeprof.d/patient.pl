# Patient: the half of the verb "doctor" that looks at a running process: what jeprofctl says of it,
# and what /proc shows. The subs that judge add findings by Doctor::find; $status is what jeprofctl
# status --json says, $facts what facts() returns. Caller: Doctor, which calls Doctor::process; that
# sub of package Doctor stands in this file.
package Patient;

# All findings about a process, by pid or name. If there is no such process, or several have the
# name, that is the one finding, and the exit status of jeprofctl is returned; else 0, also if the
# process did not answer. Exit statuses of jeprofctl: 2, wrong words, or several processes have this
# name; 5, no such process, or no way into it; 7, no answer in time.
sub Doctor::process {
	my ($who) = @_;
	my $ctl = Tool::own_dir() . '/jeprofctl';
	Talk::fail(1, "a process is asked by jeprofctl, which is not there ($ctl)") unless -x $ctl;
	my ($code, $out, $err) = Tool::asked(undef, $ctl, 'status', $who, '--json', '-q');
	my ($text) = $err =~ /^(?:jeprofctl: )?(.*)$/m;
	$text //= '';
	my $status = from_json($out);
	my $pid = $status->{pid} // ($text =~ /^(\d+) / ? $1 : $who =~ /^\d+$/ ? $who : undef);
	if ($code == 2 || $code == 5 && (!defined $pid || !-e "/proc/$pid/status"
			|| $text =~ /^\d+ has ended/)) {
		Doctor::find('problem', 'process', $text, Talk::command('list'));
		return $code;
	}
	my $facts = facts($pid);
	Doctor::find('ok', 'process', sprintf '%s %s, uid %s, %s', $pid, $facts->{name}, $facts->{uid},
		readlink("$facts->{dir}/exe") // 'its program may not be seen');
	surroundings($pid, $facts);
	my $is_used = $text !~ /does not use it: its malloc/; # status tells an idle one all the same
	$code == 0 && $is_used ? answered($pid, $status, $facts) : refused($pid, $code, $text);
	environment($pid, $facts, $status);
	the_file($pid, $facts);
	return 0;
}

# The directory in /proc that shows memory and files of a process: its own, or that of a thread that
# runs, if the first thread has ended before the others (pthread_exit() in main).
sub dir_of {
	my ($pid) = @_;
	for my $dir ("/proc/$pid", glob "/proc/$pid/task/*") {
		return $dir if read_text("$dir/stat") =~ /.*\) [^ZX]/s;
	}
	return "/proc/$pid";
}

# An object of JSON that jeprofctl wrote, as a hash of texts. Its values are numbers, strings, true
# or false, no lists or objects. Escapes in strings stay as they are.
sub from_json {
	my ($text) = @_;
	my %value;
	while ($text =~ /"((?:[^"\\]|\\.)*)":(?:"((?:[^"\\]|\\.)*)"|([^,}\s]+))/g) {
		$value{$1} = $2 // $3;
	}
	return \%value;
}

# The bytes of a file; '' if it cannot be read.
sub read_text {
	my ($path) = @_;
	open(my $fh, '<:raw', $path) or return '';
	local $/;
	return scalar(<$fh>) // '';
}

# { name, uid: the effective one, -1 if not known, groups: of the effective gid too, seccomp: 2 if
# its system calls are filtered, dir: see dir_of() } of a process, by /proc.
sub facts {
	my ($pid) = @_;
	my $text = read_text("/proc/$pid/status");
	my %fact = (name => '?', uid => -1, seccomp => 0, groups => [], dir => dir_of($pid));
	$fact{name} = $1 if $text =~ /^Name:\t(.*)$/m;
	$fact{uid} = $1 if $text =~ /^Uid:\t\d+\t(\d+)/m;
	$fact{seccomp} = $1 if $text =~ /^Seccomp:\t(\d)/m;
	$fact{groups} = [split ' ', "$1 $2"] if $text =~ /^Gid:\t\d+\t(\d+).*?^Groups:\t(.*?)$/ms;
	return \%fact;
}

# Findings about its surroundings: filters of system calls, namespaces, files that it has mapped and
# that were deleted.
sub surroundings {
	my ($pid, $facts) = @_;
	Doctor::find('warn', 'rights',
		"its system calls are filtered (seccomp): a profile takes open, write and rename; if one is refused, status has it as last_error",
		Talk::word(Tool::own_dir() . '/jeprofctl') . " dump $pid -o profile.heap")
	    if $facts->{seccomp} == 2;
	my ($there, $here) = map { readlink("$_/ns/mnt") // '' } $facts->{dir}, '/proc/self';
	Doctor::find('ok', 'place',
		"it has its own mount namespace, as in a container: its files are below $facts->{dir}/root")
	    if length $there && length $here && $there ne $here;
	my %gone = map { $_ =>
		    1 } read_text("$facts->{dir}/maps") =~ m{^\S+ r-xp \S+ \S+ [1-9]\d* +(/.*) \(deleted\)$}mg;
	for my $path (sort keys %gone) {
		my $is_library = Object::base_name($path) =~ /^libjemalloc/;
		Doctor::find($is_library ? 'ok' : 'warn', 'place',
			"$path was deleted or replaced since the start; "
			    . ($is_library ? 'it goes on working'
				: 'the new file has other names: those of the old one are in /proc'),
			$is_library ? undef : Talk::command('top', "--exe=$facts->{dir}/exe", 'PROFILE'));
	}
}

# The finding where jeprofctl got no answer, and ended with $code: its sentence $text holds the
# reason, and often the command to type.
sub refused {
	my ($pid, $code, $text) = @_;
	$text =~ s/^\Q$pid\E \S+:? //;
	my $command;
	$command = $1 if $text =~ s/; this would start it on ours: (.*)$//;
	$command //= Talk::command('list') if $text =~ /does not run the library/;
	my $is_denied = $text =~ /no way in/; # to root too: in a container, or by a security module
	$command //= 'sudo ' . Talk::command('doctor', $pid)
	    if $text =~ /use sudo/ || $is_denied && $> != 0;
	my $about = $text =~ /without the profiler/ ? 'profiler' : $text =~ /no way in|closed/
	    ? 'rights' : $text =~ /malloc|allocator|run the library/ ? 'allocator' : 'answer';
	Doctor::find($code == 7 ? 'warn' : 'problem', $about, $text,
		$command // ($is_denied ? () : Talk::command('status', $pid, '--wait', '30s')));
}

# Findings where the library answered: whose malloc it is, what its session does and has done.
sub answered {
	my ($pid, $status, $facts) = @_;
	Doctor::find('ok', 'allocator',
		"malloc is that of the library, with the profiler ($status->{way}, version "
		    . substr($status->{version} // '?', 0, 24) . ')');
	my $state = $status->{state} // '?';
	my $is_traced = ($status->{tracer} // '') eq 'yes';
	Doctor::find('ok', 'profiler', 'a tracer is attached to the probe otel_memory:alloc')
	    if $is_traced;
	if ($state eq 'idle') {
		$is_traced or Doctor::find('warn', 'profiler', 'no session: nothing is sampled',
			Talk::command('start', $pid));
	} elsif ($state eq 'pending') {
		Doctor::find('warn', 'profiler', 'a start is pending: it begins when the process allocates',
			Talk::command('status', $pid));
	} else {
		my $interval = $status->{sample_interval}; # the short status of an idle process has none
		Doctor::find('ok', 'profiler', "state $state" . (defined $interval
				? ', one sample for each ' . Print::human($interval, {}) . ' allocated' : ''));
	}
	return Doctor::find('warn', 'answer',
		"it is $status->{halted} and answers nothing",
		$state =~ /^(?:idle|pending)$/ ? undef
		: Talk::word(Tool::own_dir() . '/jeprofctl') . " dump $pid --outside -o profile.heap")
	    if length($status->{halted} // '');
	return Doctor::find('ok', 'profiler',
		'it allocates nothing just now, so its figures are not known')
	    unless defined $status->{allocated};
	elsewhere($status, $facts);
	written($pid, $status);
	thresholds($pid, $status) unless $state =~ /^(?:idle|pending)$/;
	my ($samples, $fallbacks) = ($status->{unwinder_health}
		    // '') =~ /samples:(\d+) fallbacks:(\d+)/;
	Doctor::find($fallbacks * 4 > $samples ? 'warn' : 'ok', 'stacks',
		"unwinder $status->{unwinder}: $fallbacks of $samples stacks had to be read in another way than the first") if $samples;
}

# The finding that most memory of the process is not malloc's, if that is so by the rule of
# Elsewhere.
sub elsewhere {
	my ($status, $facts) = @_;
	my (undef, $rss, $shared) = split ' ', read_text("$facts->{dir}/statm");
	my $heap = $status->{resident} // '';
	return unless ($shared // '') =~ /^\d+$/ && $heap =~ /^\d+$/;
	my $page = POSIX::sysconf(POSIX::_SC_PAGESIZE());
	my @objects = read_text("$facts->{dir}/maps") =~ m{ r-xp .* (/.*)$}mg;
	my $text = Elsewhere::text($rss * $page, $heap, $shared * $page,
		Elsewhere::whose(readlink("$facts->{dir}/exe"), @objects), {});
	Doctor::find('warn', 'memory', $text) if length $text;
}

# Findings about profiles that the process has written, could not write, or held back by its limits.
sub written {
	my ($pid, $status) = @_;
	my $error = ($status->{last_error} // '') =~ s/ (\d+)$/, after $1 bytes/r;
	Doctor::find('problem', 'files', "the last profile could not be written: $error",
		Talk::command('dump', $pid, '-o', 'profile.heap')) if length $error;
	Doctor::find('warn', 'files',
		"$status->{suppressed} profiles were held back by the limits of gap, number or size (prof_dump_...)", Talk::command('dump', $pid)) if $status->{suppressed};
	my $file = $status->{last_dump} // '';
	Doctor::find('ok', 'files', "$status->{dumps} profiles written, the last $file")
	    if $status->{dumps} && length $file;
}

# The finding why no profile was written, if none was: no threshold is set; the only one, highwater,
# is not reached yet (with the command that sets a lower one, unless it is near); or else which are
# set. Status does not tell what a cgroup uses.
sub thresholds {
	my ($pid, $status) = @_;
	return if $status->{dumps};
	my @set = grep { $status->{"threshold_$_"} } qw(alloc large highwater time_ms);
	my $metric = $status->{threshold_highwater_metric} // 'allocated';
	my ($limit, $is) = ($status->{threshold_highwater} // 0, $status->{$metric});
	my $lower = 1 + int(($is // 0) * 1.2 / 1048576); # MiB
	return Doctor::find('ok', 'triggers',
		'no threshold: a profile is written when one is asked for, at the end of the session or by prof_final') unless @set;
	return Doctor::find('warn', 'triggers',
		sprintf('threshold_highwater is %s, %s is %s: no profile was due yet',
			Print::human($limit, {}), $metric, Print::human($is, {})),
		$lower * 1048576 < $limit ? Talk::command('set', $pid, '--highwater', "${lower}M") : undef)
	    if $limit && defined $is && $is < $limit && @set == 1;
	Doctor::find('ok', 'triggers', 'no profile was due yet; thresholds: ' . join ', ',
		map { "$_ " . $status->{"threshold_$_"} } @set);
}

# Findings about the environment that the process was started with.
sub environment {
	my ($pid, $facts, $status) = @_;
	my $dir = $facts->{dir};
	my $text = read_text("$dir/environ");
	my %env = map { /^(MALLOC_CONF|LD_PRELOAD)=(.*)$/s ? ($1 => $2) : () } split /\0/, $text;
	Doctor::preload_names($env{LD_PRELOAD} // '', "$dir/root", read_text("$dir/maps"));
	return unless length($status->{version} // '');
	my $conf = $env{MALLOC_CONF} // '';
	Doctor::options($conf, eval { Run::find_library({ lib => '' }) });
	my $option = Doctor::settings($conf, "$dir/root");
	my $cwd = readlink("$dir/cwd") // return;
	my $name = $option->{prof_prefix} // 'jeprof';
	Doctor::prefix($name =~ m{^/} ? $name : "$cwd/$name", $cwd, "$dir/root", $facts,
		Talk::command('start', $pid, '--prefix', '/tmp/jeprof')) unless $status->{dumps};
}

# Findings about what the program's own file lets a profile say; sets $Doctor::next, the command
# that Doctor suggests if no finding has one. Nothing if the file cannot be read.
sub the_file {
	my ($pid, $facts) = @_;
	my $exe = "$facts->{dir}/exe";
	my $elf = Elf::open_file($exe) // return;
	Doctor::names($exe, $elf);
	Doctor::stacks($elf);
	$Doctor::next = Talk::command('dump', $pid);
}
