# Run: the verb "run": starts a program on the library with profiling on, waits for its end, and
# makes the report of it and of all its descendants. Profiles go to a directory of their own and
# stay there. A signal for jeprof is the program's: the program gets it, and the report is made when
# it has ended. Nothing of the program's streams is touched, so all talk, the result's name too,
# goes to standard error, and the exit status is the program's.
package Run;

use POSIX ();

use constant { RATE => 16384, FEW => 50, TABS => 12 };

# [signal, its si_code] that came for jeprof; the code is above 0 where the kernel sent it, as for a
# terminal.
my @got;

# Options that the user's own MALLOC_CONF may change. Profiles are written as live memory rises, so
# that one lies near the peak even if the program frees all at its end; 10 a second at most, because
# one with many stacks takes some ten milliseconds.
my $sensible = 'prof_threshold_highwater:1M,prof_highwater_step:512K,prof_threshold_time_ms:1000,'
    . 'prof_dump_min_gap_ms:100';
# Options that it may not change.
my $needed = 'prof_dump_max_files:0,prof_dump_max_bytes:0,prof:true,prof_final:true,'
    . 'prof_final_signals:true';

sub command {
	my ($option, @command) = @_;
	Talk::fail(2, "run takes a command: jeprof run [-o report.html] -- ./app its arguments")
	    unless @command;
	my $file = length $option->{o} ? $option->{o} : 'report.html';
	Talk::fail(2, 'run writes its report to a file: standard output is the program\'s')
	    if $file eq '-';
	# says now that it cannot be written
	my $new = -e $file ? undef : Writing::file($file, '');
	my $status = eval { profile($option, $file, @command) };
	my $error = $@;
	unlink $new if defined $new && !-s $new;
	die $error unless defined $status;
	$main::status = $status;
}

# Runs the program and makes the report. Returns the exit status: the program's, or 1 if that is 0 and
# there is no report.
sub profile {
	my ($option, $file, @command) = @_;
	my $program = find_program($command[0]);
	my $library = find_library($option);
	check_program($program, $library);
	my $rate = length $option->{rate} ? size_of($option->{rate}) : RATE;
	my $dir = own_directory($option, $program);
	my $prefix = "$dir/" . Object::base_name($program) =~ s/[^\w.+-]/_/gr;
	my $preload = linked($library, $dir);
	my %environment = (LD_PRELOAD => join(':', $preload, grep { length } $ENV{LD_PRELOAD} // ''),
		MALLOC_CONF => join(',', "prof_sample_interval:$rate,$sensible",
			grep({ length } $ENV{MALLOC_CONF} // ''), "$needed,prof_prefix:$prefix"));
	my ($pid, $ended) = wait_for($dir, \%environment, $program, @command);
	my $status = $ended & 127 ? 128 + ($ended & 127) : $ended >> 8;
	my @left = take_of_running($dir);
	unlink($preload), rmdir $preload =~ s{/[^/]*$}{}r if $preload ne $library && !@left;
	my $is_made = eval { make_report($option, $file, $dir, $pid); 1 };
	return $status if $is_made;
	die $@ unless ref $@;
	print STDERR 'jeprof: ', Talk::clean_lines(why_nothing($@->{text}, $dir, $ended)), "\n";
	return $status || 1;
}

# 64K, 1.5M or a number, in bytes.
sub size_of {
	my ($text) = @_;
	$text =~ /^(\d+(?:\.\d+)?)([KMG]?)$/i or Talk::fail(2, "not a size: $text (64K, 1.5M)");
	my $size = int($1 * { '' => 1, K => 1 << 10, M => 1 << 20, G => 1 << 30 }->{ uc $2 });
	return $size > 0 ? $size : Talk::fail(2, "not a size: $text (64K, 1.5M)");
}

sub find_program {
	my ($name) = @_;
	my @places = $name =~ m{/} ? $name
	    : map { "$_/$name" } grep { length } split /:/, $ENV{PATH} // '/usr/bin:/bin';
	my ($path) = grep { -f && -x _ } @places;
	return $path if defined $path;
	Talk::fail(126, "$name: not a program (no right to execute it, or a directory)")
	    if grep { -e } @places;
	Talk::fail(127, "$name: no such program");
}

# The library: the one that --lib names, else that of the build tree or prefix of this jeprof.
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

# Why not, in words; undef if it can be, or is linked into the program. $mode, $uid and $gid are those
# of the program's file.
sub why_not_preloaded {
	my ($elf, $ours, $mode, $uid, $gid) = @_;
	return 'for another kind of machine than the library; --lib=FILE names one built for it'
	    if grep { $elf->{$_} ne $ours->{$_} } qw(machine wide order);
	return 'set-user-id, so the loader does not preload a library into it; run a copy without that bit'
	    if $mode & 04000 && $uid != $> || $mode & 02000 && $gid != (split ' ', $))[0];
	my $loader = loader_of($elf);
	return 'made for the C library musl, which cannot load the library; link it with libjemalloc.a'
	    if $loader =~ m{/ld-musl-} && !grep { /musl/ } loader_of($ours);
	return undef if length $loader;
	# it is inside
	return undef if index($elf->bytes(0, $elf->{size}), 'prof_final_signals') >= 0;
	return 'a static program: nothing can be preloaded into it; link it with libjemalloc.a';
}

# The path of the loader that an ELF file asks for; '' for a static one.
sub loader_of {
	my ($elf) = @_;
	my ($segment) = grep { $_->{type} == 3 } @{ $elf->{segments} }; # PT_INTERP
	return $segment ? unpack 'Z*', $elf->bytes(@$segment{qw(offset filesz)}) : '';
}

# The file that the kernel really starts: of a script, its interpreter.
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

# Makes and returns the directory for the profiles, which only this user may read; fails if its name
# cannot stand in MALLOC_CONF.
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
	my ($base) = grep { m{^/[^,]*$} && -d && -w _ } $ENV{TMPDIR} // (), '/tmp', Cwd::getcwd();
	Talk::fail(1, 'no directory for the profiles (TMPDIR, /tmp); --dumps=DIR names one')
	    unless defined $base;
	my $stem = 'jeprof.' . Object::base_name($program) =~ s/[^\w.+-]/_/gr;
	for my $try (1 .. 100) {
		my $path = sprintf '%s/%s.%06d', $base, $stem, rand 1e6;
		return $path if mkdir $path, 0700;
		Talk::fail(1, "$path: $!") unless $!{EEXIST};
	}
	Talk::fail(1, "$base: no free name for a directory");
}

# The library's path for LD_PRELOAD, which is divided at blanks and colons: if the path has one, that
# of a link without.
sub linked {
	my ($library, $dir) = @_;
	return $library unless $library =~ /[\s:]/;
	my ($place) = grep { !/[\s:]/ } "$dir/lib", '/tmp/lib' . Object::base_name($dir);
	mkdir $place, 0700 or Talk::fail(1, "$place: $!");
	symlink $library, "$place/libjemalloc.so.2" or Talk::fail(1, "$place/libjemalloc.so.2: $!");
	return "$place/libjemalloc.so.2";
}

sub names_in {
	my ($dir, $pattern) = @_;
	opendir(my $at, $dir) or return;
	return map { "$dir/$_" } sort grep { /$pattern/ } readdir $at;
}

sub glob_in { return names_in($_[0], qr/^[^.].*\.heap$/) }

# ---- while it runs ----
# Starts the program, waits for its end and returns its pid and wait status. Signals are blocked
# except in sigsuspend, so their handlers run here only, at once, and learn who sent the signal. A
# signal of the terminal reaches the program by itself; one that a process sent to jeprof is passed
# on. Every two seconds a long series of profiles is thinned out.
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
			thin_out($dir) if $signal->[0] == POSIX::SIGALRM();
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

# Starts the program and returns its pid; fails if it cannot be executed.
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
	Talk::fail(126, "$command[0]: $!");
}

# Removes some profiles of each process that has many, so that the rest are about equally far apart in
# time. The first, the largest and the newest always stay.
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
# Descendants that still run (of a program that went into the background): a
# profile of each as it is now.
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
		Talk::note("process $pid still runs: the report has it as it is now; "
			    . "later: jeprof live $pid, or its profiles in $dir");
		Tool::filter([$ctl, 'dump', $pid, '-q', '--wait', '2s'], '') if -x $ctl;
	}
	return @running;
}

# The processes with their files, the one that held most first: the program itself, and of the others
# those that held most; and words about those that have no tab, '' if there are none.
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

# A shell may start hundreds: some are named.
sub left_out {
	my ($shown, @names) = @_;
	my $count = @names;
	splice @names, TABS, @names, '...' if @names > TABS;
	return sprintf 'The report has %d of %d processes, those that held most. '
	    . '%d more have no tab: %s.', $shown, $shown + $count, $count, join ', ', @names;
}

# What the largest of some profiles misses: after the end of a program that freed all, the allocator
# still keeps its pages. Undef if a profile was taken near the peak, as far as that is known.
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
	$kept -= 4 << 20; # the allocator's own, for a small program
	return undef if $most >= 0.8 * $kept || $kept <= 0;
	return sprintf 'The peak may lie between the profiles: the largest has %s live, '
	    . 'and the allocator kept up to %s of pages%s.', Print::human($most, {}),
	    Print::human($kept, {}), defined $at ? ' at ' . Series::clock($at) : '';
}

# Live and resident bytes of the allocator.
sub figures {
	my ($head) = @_;
	return map { ($head->{meta}{$_} // '') =~ /^(\d{1,15})$/ ? $1 : 0 } qw(allocated resident);
}

# The profile to look at first: the newest, or the largest if the newest has less than half of it.
sub telling {
	my (@files) = @_;
	my %live = map { $_ => (figures(Dump::head($_)))[0] } @files;
	my ($largest) = sort { $live{$b} <=> $live{$a} || $a cmp $b } @files;
	return 2 * $live{ $files[-1] } < $live{$largest} ? $largest : $files[-1];
}

# Writes the report, and says where it is and what to type next; fails if there is no profile.
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
	Talk::next_is('open', [$file]) if -f $file;
	Talk::note((-f _ ? '      ' : 'next: ') . Talk::command('top', [$last]));
}

# Why there is no report: the text of the failure, else the likely reason that there is no profile.
sub why_nothing {
	my ($text, $dir, $ended) = @_;
	return $text if length $text;
	rmdir $dir;
	return 'no profile came out: the program was killed by signal 9 before it had written one'
	    if ($ended & 127) == 9;
	return 'no profile came out: the program did not end by exit or a signal (_exit), '
	    . 'never allocated, or has a malloc of its own';
}
