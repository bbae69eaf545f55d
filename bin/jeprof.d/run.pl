# Run: the verb "run": starts a program on the library with profiling on, waits for its end, and
# makes the report of it and of those of its descendants that held most. Profiles go to a directory
# of their own and stay there. SIGINT, SIGTERM and SIGHUP do not end jeprof while the program runs:
# the program gets them, and the report is made when it has ended. The standard streams are the
# program's, so all that jeprof says, the name of the report too, goes to standard error, and the
# exit status is the program's (see profile()). Called by Main (command); Doctor, Patient, Whose and
# Writing use find_program(), find_library(), interpreter(), loader_of(), why_not_preloaded().
package Run;

use POSIX ();

# RATE: mean bytes between samples without --rate. FEW: of a process that has more profiles some are
# removed while it runs. TABS: the report has at most so many processes, and names at most so many
# of the others.
use constant { RATE => 16384, FEW => 50, TABS => 12 };

# The signals that came and are not yet dealt with, as [number, si_code]. The code is above 0 if the
# kernel sent the signal (for a key of the terminal), else a process did.
my @got;

# Options of the library that the user's own MALLOC_CONF may change. Profiles are written as live
# memory rises, so that one lies near the peak even if the program frees all at its end, and after
# each second. Two of one of these kinds are at least 100 ms apart, because one with many stacks
# takes some ten milliseconds.
my $sensible = 'prof_threshold_highwater:1M,prof_highwater_step:512K,prof_threshold_time_ms:1000,'
    . 'prof_dump_min_gap_ms:100';
# Options that MALLOC_CONF may not change; profile() adds prof_prefix.
my $needed = 'prof_dump_max_files:0,prof_dump_max_bytes:0,prof:true,prof_final:true,'
    . 'prof_final_signals:true';

# The verb: @command is the program, a path or a name to be found in PATH, and its arguments;
# $option is what Options::parse returns, here and below. Sets $main::status, the exit status of
# jeprof.
sub command {
	my ($option, @command) = @_;
	Talk::fail(2, "run takes a command: jeprof run [-o report.html] -- ./app its arguments")
	    unless @command;
	Threads::refuse_each($option); # as its report would, after the run
	my $file = length $option->{o} ? $option->{o} : 'report.html';
	Talk::fail(2, 'run writes its report to a file: standard output is the program\'s')
	    if $file eq '-';
	# fails now, not after the run, if the file cannot be written; makes an empty one where none is
	my $is_new = !-e $file;
	my $path = Writing::file($file, $is_new ? '' : undef);
	my $status = eval { profile($option, $file, @command) };
	my $error = $@;
	unlink $path if $is_new && !-s $path;
	die $error unless defined $status;
	$main::status = $status;
}

# Runs the program and writes the report to $file. Returns the exit status: the program's, 128 + N
# if signal N ended it, or 1 if that is 0 and there is no report. Where a descendant still runs, the
# link of linked() stays.
sub profile {
	my ($option, $file, @command) = @_;
	my $program = find_program($command[0]);
	my $library = find_library($option);
	check_program($program, $library);
	my $rate = length $option->{rate} ? size_of($option->{rate}) : RATE;
	my $is_there = length $option->{dumps} && -d $option->{dumps};
	my $dir = own_directory($option, $program);
	my $prefix = "$dir/" . Object::base_name($program) =~ s/[^\w.+-]/_/gr;
	my $preload = linked($library, $dir);
	my %environment = (LD_PRELOAD => join(':', $preload, grep { length } $ENV{LD_PRELOAD} // ''),
		MALLOC_CONF => join(',', "prof_sample_interval:$rate,$sensible",
			grep({ length } $ENV{MALLOC_CONF} // ''), "$needed,prof_prefix:$prefix"));
	my ($pid, $ended) = eval { wait_for($dir, \%environment, $program, @command) };
	my $failure = $@;
	my @left = defined $pid ? take_of_running($dir) : ();
	unlink($preload), rmdir $preload =~ s{/[^/]*$}{}r if $preload ne $library && !@left;
	rmdir $dir unless defined $pid || $is_there;
	die $failure unless defined $pid;
	my $status = $ended & 127 ? 128 + ($ended & 127) : $ended >> 8;
	my $is_made = eval { make_report($option, $file, $dir, $pid); 1 };
	return $status if $is_made;
	die $@ unless ref $@;
	rmdir $dir unless $is_there || @left; # if there is no profile
	print STDERR 'jeprof: ', Talk::clean_lines(why_nothing($@->{text}, $ended)), "\n";
	return $status || 1;
}

# A size in bytes of the text of --rate: 64K, 1.5M or a number. Fails for another text, 0, and more
# than the library takes.
sub size_of {
	my ($text) = @_;
	my $size = $text =~ /^(\d+(?:\.\d+)?)([KMG]?)$/i
	    ? int($1 * { '' => 1, K => 1 << 10, M => 1 << 20, G => 1 << 30 }->{ uc $2 }) : 0;
	return $size >= 1 && $size < 2**63 ? sprintf '%d', $size
	    : Talk::fail(2, "--rate takes a size as 64K, 1.5M, 1 or more and below 2^63; '$text' is none");
}

# The path of an executable file, looked for in PATH if the name has no "/". Fails with 127 if there
# is none, with 126 if what is there cannot be executed; directories of PATH do not count.
sub find_program {
	my ($name) = @_;
	my @places = $name =~ m{/} ? $name
	    : map { "$_/$name" } grep { length } split /:/, $ENV{PATH} // '/usr/bin:/bin';
	my ($path) = grep { -f && -x _ } @places;
	return $path if defined $path;
	Talk::fail(126, "$name: not a program (no right to execute it, or a directory)")
	    if grep { -e && ($name =~ m{/} || !-d _) } @places;
	my $hint = $name !~ m{/} && -f "./$name" && -x _ ? "; ./$name is one" : '';
	Talk::fail(127, length $name ? "$name: no such program$hint" : "'': no name of a program");
}

# The absolute path of the library: that of --lib, else the first of the build tree or the prefix of
# this jeprof. It must contain the name of an option of the profiler; fails if there is none.
sub find_library {
	my ($option) = @_;
	my $own = Tool::own_dir();
	my @given = length $option->{lib} ? $option->{lib} : ();
	my $config = "$own/jemalloc-config";
	my $libdir = !@given && -x $config ? Tool::filter([$config, '--libdir'], '') // '' : '';
	$libdir =~ s/\n.*//s;
	my @dirs = ("$own/../lib", length $libdir ? $libdir : ());
	my @found = @given ? @given
	    : grep { !/_deepbind/ } map { names_in($_, qr/^libjemalloc.*\.so\.2$/) } @dirs;
	for my $path (grep { -f } @found) {
		my $elf = Elf::open_file($path);
		return Cwd::abs_path($path)
		    if $elf && index($elf->bytes(0, $elf->{size}), 'prof_final_signals') >= 0;
		Talk::fail(1, "$path: not this library (another allocator, or one without profiling)")
		    if @given;
	}
	Talk::fail(1, @given ? "$given[0]: no such file"
		: "no libjemalloc.so.2 in @dirs; --lib=FILE says where it is");
}

# Fails, before anything is started, if the library cannot be preloaded into the program.
sub check_program {
	my ($program, $library) = @_;
	my $file = interpreter($program);
	my $elf = Elf::open_file($file) or return; # the kernel will say what is wrong
	my $reason = why_not_preloaded($elf, Elf::open_file($library), (stat $file)[2, 4, 5]) // return;
	Talk::fail(1, Talk::clean($file) . ": $reason");
}

# Why the library cannot be preloaded into a program, in words; undef if it can be, or is linked
# into the program. $elf and $ours are the Elf of the program and of the library, $mode, $uid and
# $gid are those of the program's file.
sub why_not_preloaded {
	my ($elf, $ours, $mode, $uid, $gid) = @_;
	return 'for another kind of machine than the library; --lib=FILE names one built for it'
	    if grep { $elf->{$_} ne $ours->{$_} } qw(machine wide order);
	return 'set-user-id, so the loader does not preload a library into it; run a copy without that bit'
	    if $mode & 04000 && $uid != $> || $mode & 02000 && $gid != (split ' ', $))[0];
	my $loader = loader_of($elf);
	return 'made for the C library musl, which cannot load the library; link it with libjemalloc.a'
	    if $loader =~ m{/ld-musl-} && !grep { /^(?:libc\.musl-|ld-musl-|libc\.so$)/ } $ours->needed;
	return undef if length $loader;
	# a static program that contains the library has the name of this option
	return undef if index($elf->bytes(0, $elf->{size}), 'prof_final_signals') >= 0;
	return 'a static program: nothing can be preloaded into it; link it with libjemalloc.a';
}

# The path of the loader that an Elf asks for; '' for a static program or a library.
sub loader_of {
	my ($elf) = @_;
	my ($segment) = grep { $_->{type} == 3 } @{ $elf->{segments} }; # PT_INTERP
	return $segment ? unpack 'Z*', $elf->bytes(@$segment{qw(offset filesz)}) : '';
}

# The file that the kernel starts for a path: of a script its interpreter, and of "#!/usr/bin/env
# NAME" the program NAME; of interpreters that are scripts too, up to 4 times.
sub interpreter {
	my ($path) = @_;
	for (1 .. 4) {
		open(my $fh, '<:raw', $path) or last;
		read $fh, my $head, 256;
		last unless ($head // '') =~ m{\A#![ \t]*(/[^\s]+)(?:[ \t]+([^\s]+))?};
		my ($file, $word) = ($1, $2);
		$path = $file =~ m{/env$} && defined $word
		    && $word =~ /^\w/ ? eval { find_program($word) } // $file : $file;
	}
	return $path;
}

# The absolute path of the directory for the profiles: that of --dumps, which is made if it is not
# there and must have no profiles in it, else a new one in TMPDIR, /tmp or the current directory.
# Only this user may use a new one. Fails if the path cannot stand in MALLOC_CONF.
sub own_directory {
	my ($option, $program) = @_;
	if (length $option->{dumps}) {
		mkdir $option->{dumps}, 0700 or $!{EEXIST} && -d $option->{dumps}
		    or Talk::fail(1, "$option->{dumps}: $!");
		my $path = Cwd::abs_path($option->{dumps});
		Talk::fail(2, "$path: a comma in the name of the directory cannot be said in MALLOC_CONF")
		    if $path =~ /,/;
		Talk::fail(2, "$path: has profiles in it already; name a new directory") if glob_in($path);
		return $path;
	}
	my $name = 'jeprof.' . Object::base_name($program) =~ s/[^\w.+-]/_/gr;
	for my $base (grep { m{^/[^,]*$} && -d } $ENV{TMPDIR} // (), '/tmp', Cwd::getcwd()) {
		my $path = eval { new_directory("$base/$name") }; # or no right, or all is read-only
		return $path if defined $path;
	}
	Talk::fail(1, 'no directory for the profiles can be made in TMPDIR, /tmp or here; --dumps=DIR names one');
}

# Makes a directory that only this user may use and returns its path: $stem, a dot and a number.
sub new_directory {
	my ($stem) = @_;
	for my $try (1 .. 100) {
		my $path = sprintf '%s.%06d', $stem, rand 1e6;
		return $path if mkdir $path, 0700;
		Talk::fail(1, "$path: $!") unless $!{EEXIST};
	}
	Talk::fail(1, "$stem: no free name for a directory");
}

# What to write in LD_PRELOAD, which is divided at blanks and colons: the path of the library, or if
# that has one of them, the path of a new symbolic link without.
sub linked {
	my ($library, $dir) = @_;
	return $library unless $library =~ /[\s:]/;
	my $place = new_directory(
		(grep { !/[\s:]/ } "$dir/lib", '/tmp/lib' . Object::base_name($dir) =~ s/[\s:]/_/gr)[0]);
	symlink $library, "$place/libjemalloc.so.2" or Talk::fail(1, "$place/libjemalloc.so.2: $!");
	return "$place/libjemalloc.so.2";
}

# The paths of the files of a directory whose names match, sorted; () if it cannot be read.
sub names_in {
	my ($dir, $pattern) = @_;
	opendir(my $at, $dir) or return;
	return map { "$dir/$_" } sort grep { /$pattern/ } readdir $at;
}

# The paths of the profiles in a directory.
sub glob_in { return names_in($_[0], qr/^[^.].*\.heap$/) }

# ---- while it runs ----
# Starts the program with %$environment added to its own, waits for its end and returns its pid and
# wait status. The five signals are blocked except in sigsuspend, so their handlers run there only,
# at once, and learn who sent the signal. A signal of the terminal reaches the program by itself;
# INT, TERM or HUP that a process sent is passed on, also if it has reached the program by itself,
# as one sent to the group of both has. At SIGALRM, two seconds after the last signal, thin_out()
# removes profiles of $dir that are too many.
sub wait_for {
	my ($dir, $environment, $program, @command) = @_;
	my @numbers = (POSIX::SIGINT(), POSIX::SIGTERM(), POSIX::SIGHUP(), POSIX::SIGCHLD(),
		POSIX::SIGALRM());
	my ($before, %old) = (POSIX::SigSet->new);
	POSIX::sigprocmask(POSIX::SIG_BLOCK(), POSIX::SigSet->new(@numbers), $before);
	for my $number (@numbers) {
		my $action = POSIX::SigAction->new(sub { push @got, [$number, $_[1]{code} // 0] },
			POSIX::SigSet->new(@numbers), POSIX::SA_SIGINFO());
		POSIX::sigaction($number, $action, $old{$number} = POSIX::SigAction->new);
	}
	my $pid = start($environment, $before, $program, @command);
	while (waitpid($pid, POSIX::WNOHANG()) == 0) {
		alarm 2;
		POSIX::sigsuspend($before);
		for my $signal (splice @got) {
			eval { thin_out($dir) } if $signal->[0] == POSIX::SIGALRM(); # a file may be damaged
			kill $signal->[0], $pid
			    if $signal->[0] != POSIX::SIGALRM() && $signal->[0] != POSIX::SIGCHLD()
			    && $signal->[1] <= 0;
		}
	}
	my $ended = $?;
	alarm 0;
	POSIX::sigaction($_, $old{$_}) for @numbers;
	POSIX::sigprocmask(POSIX::SIG_SETMASK(), $before);
	return ($pid, $ended);
}

# Starts the program with $mask as its blocked signals, and returns its pid. Fails with 126 if it
# cannot be executed, with 127 if its interpreter is not there: the child writes errno into a pipe, which is closed without that by a
# successful exec.
sub start {
	my ($environment, $mask, $program, @command) = @_;
	pipe my $out, my $in or Talk::fail(1, "pipe: $!");
	my $pid = fork // Talk::fail(1, "fork: $!");
	if (!$pid) {
		close $out;
		POSIX::sigaction($_, POSIX::SigAction->new('DEFAULT'))
		    for POSIX::SIGINT(), POSIX::SIGTERM(),
		    POSIX::SIGHUP(), POSIX::SIGCHLD(), POSIX::SIGALRM();
		POSIX::sigprocmask(POSIX::SIG_SETMASK(), $mask);
		@ENV{ keys %$environment } = values %$environment;
		no warnings 'exec';
		exec {$program} @command or syswrite $in, $! + 0;
		POSIX::_exit(126);
	}
	close $in;
	sysread $out, my $errno, 16;
	return $pid if !length($errno // '');
	waitpid $pid, 0;
	$! = $errno;
	Talk::fail(127, "$command[0]: its interpreter or loader is not there") if $!{ENOENT};
	Talk::fail(126, "$command[0]: $!");
}

# Removes profiles of each process that has more than FEW in $dir, of those with a time in their
# name, so that the rest are about equally far apart in time. The first, the largest and the newest
# always stay.
sub thin_out {
	my ($dir) = @_;
	my %of;
	for my $file (glob_in($dir)) {
		my $parts = Input::name_parts($file) or next;
		push @{ $of{ $parts->{pid} } }, $file if defined $parts->{time};
	}
	for my $files (grep { @$_ > FEW } values %of) {
		my @heads = Order::sorted(map { my $head = Dump::head($_); { dump => $head, file => $_,
					size => $head->{meta}{allocated} // 0, Order::stamp($head) } } @$files);
		$_->{key} //= 0 for @heads;
		my ($largest) = sort { $b->{size} <=> $a->{size} } @heads;
		my $gap = ($heads[-1]{key} - $heads[0]{key}) / (FEW / 2);
		my $last = shift @heads;
		pop @heads;
		for my $head (grep { $_ != $largest } @heads) {
			if ($head->{key} - $last->{key} < $gap) { unlink $head->{file} } else { $last = $head }
		}
	}
}

# ---- the report ----
# Asks jeprofctl for a profile of each descendant that still runs, as of a program that went into
# the background; returns their pids. Such a process is known by the prof_prefix in its environment.
sub take_of_running {
	my ($dir) = @_;
	my $ctl = Tool::own_dir() . '/jeprofctl';
	my @running;
	for my $environ (glob '/proc/[0-9]*/environ') {
		open(my $fh, '<:raw', $environ) or next;
		local $/;
		my $text = <$fh> // '';
		next unless index($text, "prof_prefix:$dir/") >= 0 && $environ =~ m{/(\d+)/} && $1 != $$;
		push @running, $1;
	}
	for my $pid (@running) {
		my $is_taken = -x $ctl && defined Tool::filter([$ctl, 'dump', $pid, '-q', '--wait', '2s'], '');
		Talk::note("process $pid still runs: the report has it as it "
			    . ($is_taken ? 'is now' : 'was in its last profile, if it has written one')
			    . "; later: jeprof live $pid, or its profiles in $dir");
	}
	return @running;
}

# The profiles in $dir by process: (text, [files], [files], ...), the process that held most first.
# The program itself ($main is its pid) is among the TABS that are returned, and of the others those
# that held most. The text tells of those that are left out; '' if none is.
sub groups {
	my ($dir, $main) = @_;
	my (%files, %most, %name);
	for my $file (glob_in($dir)) {
		my $head = Dump::head($file);
		# exec keeps the pid: two programs
		my $pid = $head->pid . ' ' . ($head->{meta}{exe} // '');
		push @{ $files{$pid} }, $file;
		my $size = ($head->{meta}{samples} // 1) > 0 ? $head->{meta}{allocated} // 0 : 0;
		$most{$pid} = $size if $size > ($most{$pid} // -1);
		$name{$pid} = Object::base_name($head->{meta}{exe} // '?') . ' ' . $head->pid;
	}
	my @pids = sort { (index($b, "$main ") == 0) <=> (index($a, "$main ") == 0)
		    || $most{$b} <=> $most{$a} || $a cmp $b } keys %files;
	my @rest = splice @pids, @pids > TABS ? TABS : @pids;
	@pids = sort { $most{$b} <=> $most{$a} || $a cmp $b } @pids;
	my $said = @rest ? left_out(scalar @pids, map { $name{$_} } @rest)
	    . " The profiles of all are in $dir." : '';
	return ($said, map { $files{$_} } @pids);
}

# The text that $shown processes are in the report, and which others are not: at most TABS names,
# because a shell may start hundreds.
sub left_out {
	my ($shown, @names) = @_;
	my $count = @names;
	splice @names, TABS, @names, '...' if @names > TABS;
	return sprintf 'The report has %d of %d processes, those that held most. '
	    . '%d more have no tab: %s.', $shown, $shown + $count, $count, join ', ', @names;
}

# A sentence if the true peak seems to be in none of the profiles of a process; undef if one was
# taken near it, as far as that is known: if the most live bytes are at least 0.8 times (the highest
# resident bytes less 4 MiB). The allocator keeps pages resident for a while after the program has
# freed what was in them.
sub missed_peak {
	my (@files) = @_;
	my ($most, $at) = (0);
	my $kept = 0;
	for my $file (@files) {
		my $head = Dump::head($file);
		my ($live, $resident) = figures($head);
		$most = $live if $live > $most;
		($kept, $at) = ($resident, Order::time_of($head)) if $resident > $kept;
	}
	my $least = 0.8 * ($kept - (4 << 20)); # 4 MiB: the allocator's own, for a small program
	return undef if $most >= $least;
	return sprintf 'The peak may lie between the profiles: the largest has %s live, '
	    . 'and the allocator kept up to %s of pages%s.', Print::human($most, {}),
	    Print::human($kept, {}), defined $at ? ' at ' . Series::clock($at) : '';
}

# The live and the resident bytes that a dump has in its metadata; 0 for what it has not.
sub figures {
	my ($head) = @_;
	return map { ($head->{meta}{$_} // '') =~ /^(\d{1,15})$/ ? $1 : 0 } qw(allocated resident);
}

# The file of the profile to look at first: the newest, or the largest if the newest has less than
# half of its live bytes.
sub telling {
	my (@files) = @_;
	my %live = map { $_ => (figures(Dump::head($_)))[0] } @files;
	my ($largest) = sort { $live{$b} <=> $live{$a} || $a cmp $b } @files;
	my $newest = Order::last_of(@files);
	return 2 * $live{$newest} < $live{$largest} ? $largest : $newest;
}

# Writes the report of the profiles in $dir to $file, and says where it is and what to type next;
# fails if there is no profile. $main: the pid of the program. INT, TERM and HUP now end jeprof.
sub make_report {
	my ($option, $file, $dir, $main) = @_;
	my ($said, @groups) = groups($dir, $main);
	Talk::fail(1, '') unless @groups;
	local @SIG{qw(INT TERM HUP)} = (sub { Talk::fail(1,
				"interrupted: no report; the profiles are in $dir") }) x 3;
	my @words = grep { length } $said, missed_peak(@{ $groups[0] }) // '';
	Writing::file($file, Report::html_of({ %$option, said => \@words }, @groups));
	Talk::note($_) for @words;
	my $last = telling(@{ $groups[0] });
	print STDERR Talk::clean("$file: " . (@groups > 1 ? scalar(@groups) . ' processes, ' : '')
		    . 'profiles in ' . $dir), "\n";
	my $can_open = Writing::can_be_read($file);
	Talk::next_is('open', [$file]) if $can_open;
	Talk::note(($can_open ? '      ' : 'next: ') . Talk::command('top', [$last]));
}

# Why there is no report, in words: the text of the failure, else the likely reason that there is no
# profile, by the wait status $ended.
sub why_nothing {
	my ($text, $ended) = @_;
	return $text if length $text;
	return 'no profile came out: the program was killed by signal 9 before it had written one'
	    if ($ended & 127) == 9;
	return 'no profile came out: the program did not end by exit or a signal (_exit), '
	    . 'never allocated, or has a malloc of its own';
}
