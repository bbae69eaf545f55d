# Doctor: the verb "doctor": why no profile comes out of a program or process, and what to do. One
# line a finding: ok, warn or problem, what it is about, what was found; then the command to type.
# Nothing of the program is run. What a live process says of itself is asked by jeprofctl status
# --json (patient.pl, which has Doctor::process); the options are judged by the library itself, in a
# process of ours. Exit: 0 fine, 1 a problem, 3 warnings only; 5 if there is no such process, 2 if
# several have the name (Doctor::process). Callers: Main (command), Patient. A sub that judges one
# thing adds findings; its result is used only where its comment says what it returns.
package Doctor;

use Cwd ();
use POSIX ();

our $next; # the command to type when all is fine
my @found; # the findings { level, about, text, next: a command or undef }
my %rank = (ok => 0, warn => 1, problem => 2);

# Adds a finding; $command is what to type about it, or undef. True if its level is ok.
sub find {
	my ($level, $about, $text, $command) = @_;
	push @found, { level => $level, about => $about, text => Talk::clean($text),
		next => defined $command ? Talk::clean($command) : undef };
	return $level eq 'ok';
}

# The verb; @words: a program or process. Sets $main::status.
sub command {
	my ($option, @words) = @_;
	push @words, $option->{p} if length $option->{p};
	Talk::fail(2, 'doctor takes one program or process: jeprof doctor ./app, jeprof doctor 4711')
	    unless @words == 1;
	my ($who) = @words;
	my $status = 0;
	if (!length $option->{p} && -e $who || $who =~ m{/}) {
		program($who);
	} elsif (length $option->{p} || $who =~ /^\d+$/) {
		$status = process($who);
	} elsif (my $path = eval { Run::find_program($who) }) {
		program($path);
	} else {
		$status = process($who);
	}
	$option->{json} ? print_json($who) : print_lines();
	$main::status = $status || (0, 3, 1)[worst()];
}

# The rank of the worst finding: 0 ok, 1 warn, 2 problem.
sub worst {
	my ($worst) = sort { $b <=> $a } map { $rank{ $_->{level} } } @found;
	return $worst // 0;
}

# The command of the first problem that has one, else of the first warning that has one, else
# $next, what one does with a program that is fine.
sub next_command {
	for my $level (qw(problem warn)) {
		for my $one (grep { $_->{level} eq $level && defined $_->{next} } @found) {
			return $one->{next};
		}
	}
	return $next;
}

# Prints the findings.
sub print_lines {
	printf "%-8s %-10s %s\n", @$_{qw(level about text)} for @found;
	my $command = next_command();
	$| = 1; # the findings first
	Talk::note("next: $command") if defined $command;
}

# Prints the findings as JSON; $who is what was asked about.
sub print_json {
	my ($who) = @_;
	my $string = sub { defined $_[0] ? Top::json_string($_[0]) : 'null' };
	my @text = map { my $one = $_; '{'
		    . join(',', map { qq{"$_":} . $string->($one->{$_}) } qw(level about text next))
		    . '}' } @found;
	printf "{\"target\":%s,\"verdict\":\"%s\",\"next\":%s,\n\"findings\":[\n%s\n]}\n",
	    $string->($who), (qw(ok warn problem))[worst()],
	    $string->(next_command()), join ",\n", @text;
}

# A word as a shell takes it.
sub word { return Talk::word($_[0]) }

# The command that runs a program with profiling.
sub run_line { return Talk::command('run', '--', $_[0]) }

# ---- a program ----
# All findings about the program $path.
sub program {
	my ($path) = @_;
	Input::need_path($path);
	return find('problem', 'program', "$path: a directory, not a program") if -d $path;
	my ($what, $command) = other_file($path);
	return find('problem', 'program', "$path: $what, not a program", $command) if defined $what;
	return find('problem', 'program', "$path: may not be executed; is it a program?",
		'chmod +x ' . word($path)) unless -x $path;
	my $file = Run::interpreter($path);
	my $elf = Elf::open_file($file)
	    or return find('problem', 'program',
		"$file: not a program of ELF; the kernel starts no such file");
	find('ok', 'program', "$path: " . ($file ne $path ? "a script; what runs is $file"
			: kind_of($elf)));
	my %env = map { $_ => $ENV{$_} // '' } qw(MALLOC_CONF LD_PRELOAD);
	my $is_secure = secure($file, $path);
	preload_names($env{LD_PRELOAD}, '') unless $is_secure;
	my $library = eval { Run::find_library({ lib => '' }) };
	my $is_on = allocator_of_program($file, $elf, $path, $library);
	options($is_secure ? '' : $env{MALLOC_CONF}, $library);
	my $option = settings($is_secure ? '' : $env{MALLOC_CONF}, '');
	triggers($option, $path) if $is_on;
	prefix($option->{prof_prefix}, Cwd::getcwd(), '', undef) if $is_on && is_true($option->{prof});
	names($file, $elf);
	stacks($elf);
	$next = run_line($path);
}

# What a file is that is no program, in words, and the command that reads it or undef; () if it may
# be a program (it begins as ELF or a script does), cannot be read, or is no regular file.
sub other_file {
	my ($path) = @_;
	return unless -f $path;
	return ('an empty file', undef) if -z _;
	return ('a black box', Talk::command('top', [$path])) if Input::is_box($path);
	if (my $elf = Elf::open_file($path)) {
		return ('a core file', Talk::command('salvage', '-o', 'FILE.heap', [$path]))
		    if $elf->{type} == Elf::ET_CORE();
		return $path =~ /\.so(?:\.[\d.]+)?$/ && !-x $path || $elf->{type} == Elf::ET_REL()
		    ? ('a library or an object file', undef) : ();
	}
	my $head = eval { Input::beginning_unpacked($path, Input::FRONT()) } // '';
	return if $head =~ /\A(?:#!|\x7fELF|\z)/;
	return ('a pack of profiles', Talk::command('ls', [$path])) if index($head, Pack::MAGIC()) == 0;
	return ('a profile', Talk::command('top', [$path])) if $head =~ /^[ \t]*$Input::header/m
	    || Input::has_suffix($path, 'heap|pb');
	return ('neither ELF nor a script that begins with #!', undef);
}

# The machine of an Elf, and how it is linked.
sub kind_of {
	my ($elf) = @_;
	my %machine = (3 => 'i386', 40 => 'arm', 62 => 'x86-64', 183 => 'aarch64', 243 => 'riscv',
		21 => 'ppc64', 22 => 's390x');
	my $loader = Run::loader_of($elf);
	return ($machine{ $elf->{machine} } // "machine $elf->{machine}") . ', '
	    . (length $loader ? 'dynamically linked' : 'statically linked');
}

# Whether a program gets more rights at its start than its caller has; then the loader and the
# library ignore its environment. That is a finding, and so is a program that gets such rights only
# for other callers. $file is what the kernel starts for it.
sub secure {
	my ($file, $path) = @_;
	my ($mode, $uid, $gid) = (stat $file)[2, 4, 5];
	my $copy = '/tmp/' . Object::base_name($file);
	my $line = 'cp ' . word($file) . ' ' . word($copy) . ' && ' . run_line($copy);
	my $why = $mode & 04000 && $uid != $> ? 'set-user-id'
	    : $mode & 02000 && $gid != (split ' ', $))[0] ? 'set-group-id' : undef;
	my $getcap = defined $why ? undef : Tool::find('getcap');
	$why = 'with file capabilities' if $getcap && $>
	    && length(Tool::filter([$getcap, $file], '') // '');
	if (defined $why) {
		find('problem', 'rights',
			"$why: LD_PRELOAD and MALLOC_CONF are ignored, the mailbox stays closed; a copy has no such right", $line);
		return 1;
	}
	find('warn', 'rights',
		'set-user-id: for its owner it is profiled, for other users LD_PRELOAD and MALLOC_CONF are ignored', $line)
	    if $mode & 06000;
	return 0;
}

# Adds a finding for each file that LD_PRELOAD (its value is $text) names and that is not there.
# $root: the root directory of the process, '' for ours; $maps: its map or undef. A file in the map
# was there when the process started.
sub preload_names {
	my ($text, $root, $maps) = @_;
	for my $name (grep { m{/} && !-e "$root$_" && index($maps // '', $_) < 0 } split /[\s:]+/,
		$text) {
		find('problem', 'preload',
			"LD_PRELOAD names $name, which is not there: the loader goes on without it");
	}
}

# Adds the finding that says which allocator's malloc the program uses; true if it is our library
# with the profiler. $library: the path of ours, or undef.
sub allocator_of_program {
	my ($file, $elf, $path, $library) = @_;
	my $is_static = !length Run::loader_of($elf);
	my $whose = $is_static ? Whose::static_one($file, $elf)
	    : Whose::first_of($file, Whose::objects($file, $elf));
	if (!$whose) {
		my $ours = defined $library ? Elf::open_file($library) : undef;
		my $reason = $ours ? Run::why_not_preloaded($elf, $ours, (stat $file)[2, 4, 5])
		    : 'the loader of this machine cannot list its objects';
		return find('problem', 'allocator', $reason) if defined $reason;
		return find('warn', 'allocator', 'its objects cannot be listed here', run_line($path));
	}
	return told($whose) if $whose->{kind} =~ /ours|bare/;
	my $who = "$whose->{name} ($whose->{path})";
	my $build = 'cc -o ' . word($path) . ' ... -ljemalloc';
	return find('problem', 'allocator',
		"malloc is that of $who: a program with a sanitizer runs with no other; build it without -fsanitize",
		$build) if $whose->{kind} eq 'sanitizer';
	return find('problem', 'allocator',
		"malloc is that of $whose->{name}, linked into the program: nothing that is preloaded replaces it; link it with libjemalloc.a",
		$build) if $whose->{path} eq $file;
	return find('problem', 'allocator',
		"malloc is that of $who: the library is neither linked nor preloaded", run_line($path))
	    if $whose->{kind} eq 'libc';
	return find('problem', 'allocator', "malloc is that of another allocator, $who; "
		    . ($whose->{name} eq 'jemalloc'
			? "if it was built with profiling, $0 reads its profiles too; the library is used if it is preloaded" : 'the library is used if it is preloaded'), run_line($path));
}

# The finding about a malloc that is ours, of Whose.
sub told {
	my ($whose) = @_;
	return find('problem', 'profiler',
		"$whose->{path}: the library was built without the profiler (--disable-prof); build it without that option") if $whose->{kind} eq 'bare';
	return find('ok', 'allocator',
		"malloc is that of the library ($whose->{path}), with the profiler");
}

# ---- options ----
# What /etc/malloc.conf, a link whose target is the text, and MALLOC_CONF ($conf) say, as a hash; of
# a key that comes twice the later. prof_final has its default if neither sets it. $root: the root
# directory of the process, '' for ours.
sub settings {
	my ($conf, $root) = @_;
	my %value;
	for my $pair (split /,/, join ',', grep { length } readlink("$root/etc/malloc.conf") // '',
		$conf) {
		my ($key, $value) = $pair =~ /^([^:]+):(.*)$/ or next;
		$value{$key} = $value;
	}
	$value{prof_final} //= 'false';
	return \%value;
}

# Whether the value of an option is true.
sub is_true { return ($_[0] // '') eq 'true' }

# Adds what the library of this jeprof ($library, undef: there is none) says to $conf, the value of
# MALLOC_CONF. Nothing without $conf.
sub options {
	my ($conf, $library) = @_;
	return unless length $conf;
	my @lines = defined $library ? complaints($conf, $library) : ();
	return find('ok', 'options', "MALLOC_CONF=$conf: each pair is understood")
	    if defined $library && !@lines;
	return find('warn', 'options', 'MALLOC_CONF is set, and no library is here to judge it')
	    unless defined $library;
	find('problem', 'options', "MALLOC_CONF: $_", 'man 3 jemalloc') for @lines;
}

# What the library $library says to the options $conf and to /etc/malloc.conf, as lines; () if all
# are understood, and if it could not be tried. It is preloaded into the program "true", which does
# nothing else.
sub complaints {
	my ($conf, $library) = @_;
	my $program = Tool::find('true') or return;
	my $pid = open(my $out, '-|') // return;
	if (!$pid) {
		open STDERR, '>&', \*STDOUT;
		$ENV{LD_PRELOAD} = $library;
		# "true" shall write no file and open no mailbox for these options.
		$ENV{MALLOC_CONF} =
		    "$conf,abort_conf:false,confirm_conf:false,prof:false,prof_final:false,prof_leak:false,stats_print:false,prof_ctl_fd:false,prof_ctl_dir:";
		no warnings 'exec';
		exec {$program} $program or POSIX::_exit(127);
	}
	my @all = <$out>;
	close $out;
	my @lines;
	for my $line (@all) {
		$line =~ /^<jemalloc>: (.*)$/ or next;
		my $text = $1;
		# prefix() judges the directory; the others are no complaints about $conf
		next if $text =~ /^Abort|prof_ctl_dir:$|there is no such directory/;
		next if $text =~ /without prof:true/ && is_true(settings($conf, '')->{prof});
		$text =~ s/^Hint: // && @lines ? $lines[-1] .= " ($text)" : push @lines, $text;
	}
	return @lines;
}

# Whether anything starts the profiler of the program $path, and anything writes a profile; $option
# as settings() returns it.
sub triggers {
	my ($option, $path) = @_;
	return find('warn', 'profiler',
		'it is there and waits: nothing starts it (no prof:true in MALLOC_CONF)', run_line($path))
	    unless is_true($option->{prof});
	return find('problem', 'profiler',
		'prof_active:false: nothing is sampled until the program switches it on', run_line($path))
	    if ($option->{prof_active} // '') eq 'false';
	my @ways = grep { is_true($option->{$_}) } qw(prof_final prof_gdump prof_leak);
	push @ways, grep { ($option->{$_}
			    // 0) !~ /^(?:0|-1)$/ } grep { /^prof_threshold_|^lg_prof_interval$/
		    && !/metric|step/ } sort keys %$option;
	return find('ok', 'profiler', "on, and a profile is written by @ways") if @ways;
	return find('warn', 'profiler',
		'on, but nothing writes a profile by itself (prof_final, prof_threshold_..., lg_prof_interval)',
		"MALLOC_CONF=prof:true,prof_final:true " . word($path));
}

# Adds a finding about the directory of the profiles. $text: the value of prof_prefix; $cwd, $root:
# working directory and root directory of the process; $owner: its { uid, groups }, undef for our own
# process; $command: what to type if the directory is missing or may not be written.
sub prefix {
	my ($text, $cwd, $root, $owner, $command) = @_;
	my $name = length($text // '') ? $text : 'jeprof';
	my $shown = $name =~ m{^(.*)/} ? length $1 ? $1 : '/' : '.';
	my $dir = $shown =~ m{^/} ? "$root$shown" : "$cwd/$shown";
	return find('problem', 'files', "profiles go to $shown, and there is no such directory",
		$command // 'mkdir -p ' . word($shown)) unless -d $dir;
	return find('problem', 'files',
		"profiles go to $shown, where it may not write; name another place",
		$command // 'MALLOC_CONF=prof:true,prof_prefix:/tmp/jeprof ...')
	    unless may_write($dir, $owner);
	return find('ok', 'files', "profiles go to $shown/" . Object::base_name($name)
		    . '.PID....heap');
}

# Whether the process with this owner (see prefix()) may write in a directory. The kernel is asked
# if the owner is our user; else the mode of the directory tells.
sub may_write {
	my ($dir, $owner) = @_;
	return POSIX::access($dir, POSIX::W_OK()) ? 1 : 0 if !$owner || $owner->{uid} == $>;
	return 1 if $owner->{uid} == 0;
	my ($mode, $uid, $gid) = (stat $dir)[2, 4, 5];
	return $mode & 0200 if $uid == $owner->{uid};
	return $mode & 0020 if grep { $_ == $gid } @{ $owner->{groups} };
	return $mode & 0002;
}

# ---- what the profile will be able to say ----
# Adds the finding whether a profile will have names of functions and lines of the program.
sub names {
	my ($file, $elf) = @_;
	my $id = $elf->build_id;
	my ($debug) = grep { -f } Object::debug_paths($elf, $id);
	my $tail = length $id ? "build-id $id"
	    : 'no build-id, so a profile cannot tell this build from another';
	if ($elf->has_symtab || defined $debug) {
		my $lines = $elf->has_lines || defined $debug ? 'functions and lines'
		    : 'functions, no source lines (-g)';
		return find(length $id ? 'ok' : 'warn', 'names',
			defined $debug ? "$lines by $debug; $tail" : "$lines; $tail",
			length $id ? undef : 'cc -Wl,--build-id ...');
	}
	my ($server) = split ' ', $ENV{DEBUGINFOD_URLS} // '';
	return find('warn', 'names',
		"stripped: of the program only exported functions have names; $tail",
		length $id && !defined $server ? 'export DEBUGINFOD_URLS=https://debuginfod.debian.net'
		: undef);
}

# Adds the finding how stacks of the program can be read: by frame pointers if at least half of its
# functions set them up, else by its unwind tables.
sub stacks {
	my ($elf) = @_;
	my $share = frame_pointers($elf);
	# PT_GNU_EH_FRAME
	my $has_tables = $elf->section('.eh_frame')
	    || grep { $_->{type} == 0x6474e550 } @{ $elf->{segments} };
	my $text = !defined $share ? 'frame pointers: not known' : $share >= 0.5
	    ? sprintf('%.0f%% of the functions have frame pointers', 100 * $share)
	    : 'no frame pointers';
	return find('ok', 'stacks', "$text; "
		    . ($has_tables ? 'it has unwind tables' : 'no unwind tables are needed'))
	    if $has_tables || ($share // 0) >= 0.5;
	return find('warn', 'stacks', "$text, and no unwind tables: stacks end after a frame or two",
		'cc -fno-omit-frame-pointer -fasynchronous-unwind-tables ...');
}

# The share, 0 to 1, of the functions that begin as one with a frame pointer does, among the first
# 2000 of at least 48 bytes; undef where that cannot be said.
sub frame_pointers {
	my ($elf) = @_;
	my %prologue = (62 => qr/\x55\x48\x89\xe5/, 183 => qr/\xfd\x7b.\xa9/s);
	my $pattern = $prologue{ $elf->{machine} } // return undef;
	my ($table) = grep { $_->{type} == Elf::SHT_SYMTAB() } @{ $elf->sections };
	$table //= (grep { $_->{type} == Elf::SHT_DYNSYM() } @{ $elf->sections })[0] // return undef;
	my ($all, $with) = (0, 0);
	my $data = $elf->bytes($table->{offset}, $table->{size});
	for (my $at = 0; $at + 24 <= length $data && $all < 2000; $at += 24) {
		my $symbol = $elf->symbol(substr $data, $at, 24) or next;
		next if $symbol->{size} < 48; # a small one may need no frame
		my ($segment) = grep { $_->{type} == Elf::PT_LOAD() && $symbol->{start} >= $_->{vaddr}
			    && $symbol->{start} < $_->{vaddr} + $_->{filesz} } @{ $elf->{segments} };
		next unless $segment;
		$all++;
		$with++ if $elf->bytes($symbol->{start} - $segment->{vaddr} + $segment->{offset},
			32) =~ $pattern;
	}
	return $all ? $with / $all : undef;
}
