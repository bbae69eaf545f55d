# Fetch: profiles over the network, by curl, where a path begins with http:// or https://. The
# endpoints are pprof's: /pprof/heap, and /pprof/symbol for a profile that has no names and no
# module lines (these are the lines of objects with their build-ids). Callers: Input (text) and Dump
# (add_names), both for paths that are URLs by is_url; Main (is_url).
package Fetch;

our $seconds = 0; # --seconds: how long the server shall watch before it answers, 0: not said
my $why = ''; # ': ' and what curl said of its last failure; '' if nothing
my %fetched; # URL => text: each is fetched once

# Whether a path begins with a scheme, whichever, and is no file.
sub is_url { return $_[0] =~ m{^[a-z][a-z0-9+.-]*://}i && !-e $_[0] ? 1 : 0 }

# The text at a URL; without a path, or with "/", it is /pprof/heap. Fails if it cannot be fetched.
sub text {
	my ($url) = @_;
	return $fetched{$url} //= get($url);
}

# Fetches the text at a URL; fails if that cannot be done.
sub get {
	my ($url) = @_;
	Talk::fail(2, "$url: only http:// and https:// are fetched") unless $url =~ m{^https?://}i;
	Talk::fail(2, "$url: it names no host") unless $url =~ m{^\w+://[^/?#]};
	my ($server, $page) = $url =~ m{^(\w+://[^/?#]+)([^#]*)}; # a fragment is not for the server
	$page = $server . $page =~ s{^/?(?=\?|\z)}{/pprof/heap}r;
	$page .= ($page =~ /\?/ ? '&' : '?') . "seconds=$seconds"
	    if $seconds > 0 && $page !~ /[?&]seconds=/;
	my $text = curl($page, '') // Talk::fail(1, "$page: curl could not fetch it" . $why);
	Talk::fail(1, "$page: the answer is empty") unless length $text;
	return $text;
}

# The answer to GET of a URL, or to POST of $body if that is not empty; undef if that failed.
sub curl {
	my ($url, $body) = @_;
	my $curl = Tool::find('curl') or Talk::fail(1, "$url: curl is not installed");
	my @post = length $body ? ('--data-binary', '@-') : ();
	my ($code, $text, $said) = Tool::asked($body, $curl, '-q', '-s', '-S', '--fail', '--globoff',
		'--location', '--max-redirs', 5,
		'--proto', '=http,https', '--max-time', 60 + int(1.01 * $seconds), @post, '--', $url);
	($why) = $said =~ /^(?:curl: )?(\S.*)/ ? ": $1" : '';
	return $code ? undef : $text;
}

# Sets { symbols } of a profile that has neither names nor module lines to the names that its server
# gives. Of a return address it asks for the byte before too, which is in the call. Names later
# looks up in local files what the server did not name.
sub add_names {
	my ($dump) = @_;
	return if $dump->{symbols} || @{ $dump->{modules} };
	my ($server) = $dump->{file} =~ m{^(\w+://[^/?#]+)} or return;
	my $there = curl("$server/pprof/symbol", '') // '';
	return unless $there =~ /^num_symbols: [1-9]/m;
	my %wanted;
	for my $stack (@{ $dump->{stacks} }) {
		@wanted{ $_, $_ - 1 } = () for map { hex }
		    $stack->[0] =~ /(?<!\S)(?:0x)?([0-9a-f]{1,16})(?!\S)/gi;
	}
	my @addresses = sort { $a <=> $b } grep { $_ >= 0 } keys %wanted;
	my $names = curl("$server/pprof/symbol", join '+', map { sprintf '0x%x', $_ } @addresses)
	    // return;
	$dump->{symbols} = {};
	while ($names =~ /^(?:0x)?([0-9a-f]{1,16})[ \t]+(\S[^\n]*)$/mgi) {
		$dump->take_names(hex $1, $2) if exists $wanted{ hex $1 };
	}
}
